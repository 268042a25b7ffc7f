/**
 * The `tilelang.*` settings, read in one place. What they mean for people stands in package.json.
 */
import * as vscode from 'vscode';

/** What decides which server is started, and with which interpreter kernels run. */
export interface Settings {
  path: string;
  args: string[];
  interpreter: string;
}

/** What the server is told and told again; where nothing is set (`""`, null) the project's pyproject.toml decides. */
export interface ServerSettings {
  target: string;
  select: string[] | null;
  ignore: string[] | null;
  specialisations: Record<string, Record<string, string | number | boolean>>;
  runTimeout: number;
}

export function readSettings(): Settings {
  const section = vscode.workspace.getConfiguration('tilelang');
  return {
    path: expandFolder(section.get<string>('path', '')),
    args: section.get<string[]>('args', []),
    interpreter: expandFolder(section.get<string>('interpreter', '')),
  };
}

export function readServerSettings(): ServerSettings {
  const section = vscode.workspace.getConfiguration('tilelang');
  return {
    target: section.get<string>('target', ''),
    select: section.get<string[] | null>('select', null),
    ignore: section.get<string[] | null>('ignore', null),
    specialisations: section.get<ServerSettings['specialisations']>('specialisations', {}),
    runTimeout: section.get<number>('runTimeout', 60),
  };
}

/**
 * `restart` is called when a setting changed that the running server was started with, `tell` when one changed that it
 * can be told; the trace level follows by itself.
 */
export function onSettingsChanged(restart: () => void, tell: () => void): vscode.Disposable {
  return vscode.workspace.onDidChangeConfiguration((event) => {
    const changed = (names: string[]): boolean => names.some((name) => event.affectsConfiguration(`tilelang.${name}`));
    if (changed(['path', 'args', 'interpreter'])) restart();
    else if (changed(['target', 'select', 'ignore', 'specialisations', 'runTimeout'])) tell();
  });
}

/** VS Code substitutes variables in launch files but not in settings; this one is what people write there. */
function expandFolder(text: string): string {
  const folder = vscode.workspace.workspaceFolders?.[0]?.uri.fsPath;
  return folder === undefined ? text : text.replaceAll('${workspaceFolder}', folder);
}
