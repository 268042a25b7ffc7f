/**
 * Offers, once for a workspace, to turn off the two reports that type checkers make of eager kernels: when one is made.
 */
import * as vscode from 'vscode';
import {
  misread,
  MYPY_CODES,
  PYRIGHT_RULES,
  pyprojectWithoutReports,
  withoutCodes,
  withoutReports,
  type Checker,
} from './checkerSettings';

const ADD = 'Add settings';
const NEVER = 'Never';

export class CheckerOffer implements vscode.Disposable {
  private readonly listener: vscode.Disposable;
  private asking = false;

  constructor(
    private readonly memory: vscode.Memento,
    private readonly log: vscode.LogOutputChannel,
  ) {
    this.listener = vscode.languages.onDidChangeDiagnostics(({ uris }) => {
      for (const uri of uris) this.look(uri);
    });
    for (const [uri] of vscode.languages.getDiagnostics()) this.look(uri);
  }

  dispose(): void {
    this.listener.dispose();
  }

  private look(uri: vscode.Uri): void {
    const document = vscode.workspace.textDocuments.find((one) => one.uri.toString() === uri.toString());
    if (this.asking || document?.languageId !== 'python' || !document.getText().includes('tilelang')) return;
    for (const diagnostic of vscode.languages.getDiagnostics(uri)) {
      if (diagnostic.range.start.line >= document.lineCount) continue;
      const { source } = diagnostic;
      const checker = misread({
        source,
        code: codeOf(diagnostic),
        line: document.lineAt(diagnostic.range.start.line).text,
      });
      if (checker === undefined || this.memory.get(keyOf(checker)) !== undefined) continue;
      void this.ask(checker, document);
      return;
    }
  }

  private async ask(checker: Checker, document: vscode.TextDocument): Promise<void> {
    this.asking = true; // stays so when the question is closed: it is not asked again in this window
    const names = (checker === 'pyright' ? PYRIGHT_RULES : MYPY_CODES).join(' and ');
    const answer = await vscode.window.showInformationMessage(
      `The type checker reads the annotations of TileLang kernels as types that are wrong. ` +
        `Turn ${names} off in this workspace?`,
      ADD,
      NEVER,
    );
    if (answer === undefined) return;
    try {
      if (answer === ADD) await (checker === 'pyright' ? this.quietPyright(document) : this.quietMypy(document));
      await this.memory.update(keyOf(checker), answer);
      this.asking = false; // the other checker may ask
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      this.log.error(`the settings of the type checker could not be written: ${reason}`);
      void vscode.window.showErrorMessage(`Turn ${names} off in the type checker's settings by hand: ${reason}`);
    }
  }

  private async quietPyright(document: vscode.TextDocument): Promise<void> {
    const folder = vscode.workspace.getWorkspaceFolder(document.uri);
    const project = folder === undefined ? undefined : vscode.Uri.joinPath(folder.uri, 'pyproject.toml');
    const text = project === undefined ? undefined : await read(project);
    const edited = text === undefined ? undefined : pyprojectWithoutReports(text);
    if (project !== undefined && edited !== undefined) {
      await vscode.workspace.fs.writeFile(project, new TextEncoder().encode(edited));
      return;
    }
    const section = vscode.workspace.getConfiguration('python.analysis', document);
    const own = section.inspect<Record<string, string>>('diagnosticSeverityOverrides')?.workspaceValue ?? {};
    await section.update('diagnosticSeverityOverrides', withoutReports(own), vscode.ConfigurationTarget.Workspace);
  }

  private async quietMypy(document: vscode.TextDocument): Promise<void> {
    const section = vscode.workspace.getConfiguration('mypy-type-checker', document);
    await section.update('args', withoutCodes(section.get<string[]>('args', [])), vscode.ConfigurationTarget.Workspace);
  }
}

function keyOf(checker: Checker): string {
  return `checkerSettings.${checker}`;
}

function codeOf({ code }: vscode.Diagnostic): string | undefined {
  const value = typeof code === 'object' ? code.value : code;
  return value === undefined ? undefined : String(value);
}

/** The text of a file, undefined if there is none. */
async function read(uri: vscode.Uri): Promise<string | undefined> {
  try {
    return new TextDecoder().decode(await vscode.workspace.fs.readFile(uri));
  } catch {
    return undefined;
  }
}
