/**
 * The `tilelang.*` settings, read in one place. What they mean for people stands in package.json.
 */
import * as vscode from 'vscode';

export interface Settings {
  path: string;
  args: string[];
  interpreter: string;
  target: string;
  runTimeout: number;
}

export function readSettings(): Settings {
  const section = vscode.workspace.getConfiguration('tilelang');
  return {
    path: expandFolder(section.get<string>('path', '')),
    args: section.get<string[]>('args', []),
    interpreter: expandFolder(section.get<string>('interpreter', '')),
    target: section.get<string>('target', 'cuda:sm_90'),
    runTimeout: section.get<number>('runTimeout', 60),
  };
}

/** Called when a setting changed that the running server was started with; the trace level follows by itself. */
export function onSettingsChanged(changed: () => void): vscode.Disposable {
  const names = ['path', 'args', 'interpreter', 'target', 'runTimeout'];
  return vscode.workspace.onDidChangeConfiguration((event) => {
    if (names.some((name) => event.affectsConfiguration(`tilelang.${name}`))) changed();
  });
}

/** VS Code substitutes variables in launch files but not in settings; this one is what people write there. */
function expandFolder(text: string): string {
  const folder = vscode.workspace.workspaceFolders?.[0]?.uri.fsPath;
  return folder === undefined ? text : text.replaceAll('${workspaceFolder}', folder);
}
