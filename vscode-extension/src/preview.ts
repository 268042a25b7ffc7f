/**
 * Generated source beside the Python file: opens it, keeps it fresh while the kernel changes, and links the lines of both.
 *
 * The text is a virtual document of the scheme `tilelang-<target>`. The client library asks for it through our `content`,
 * which fetches the line map along with the text.
 */
import * as vscode from 'vscode';
import {
  TextDocumentContentRequest,
  type LanguageClient,
} from 'vscode-languageclient/node';
import { afterEdit, generatedLineFor, generatedLines, pythonLineFor, pythonLines, type LineMap } from './lineMap';
import {
  GeneratedSourceChanged,
  GeneratedSourceRequest,
  type GeneratedSourceParams,
  type PreviewArgument,
  type Target,
} from './protocol';

/** Languages of VS Code itself that colour the text well enough. */
const LANGUAGES: Record<Target, string> = { cuda: 'cuda-cpp', hip: 'cpp', metal: 'cpp', cpu: 'llvm' };

/** The client library's own way to the text. */
type NextContent = (uri: vscode.Uri, token: vscode.CancellationToken) => vscode.ProviderResult<string>;

interface Preview {
  argument: PreviewArgument;
  map: LineMap;
}

export class Previews implements vscode.Disposable {
  private readonly previews = new Map<string, Preview>();
  private readonly linked = vscode.window.createTextEditorDecorationType({
    isWholeLine: true,
    backgroundColor: new vscode.ThemeColor('tilelang.linkedLineBackground'),
    overviewRulerColor: new vscode.ThemeColor('tilelang.linkedLineBackground'),
    overviewRulerLane: vscode.OverviewRulerLane.Full,
  });
  private readonly subscriptions = [
    this.linked,
    vscode.window.onDidChangeTextEditorSelection((event) => this.follow(event.textEditor, 'cursor')),
    vscode.window.onDidChangeTextEditorVisibleRanges((event) => this.follow(event.textEditor, 'scroll')),
    vscode.workspace.onDidChangeTextDocument((event) => this.edited(event)),
  ];

  constructor(private readonly client: () => LanguageClient | undefined) {}

  dispose(): void {
    for (const subscription of this.subscriptions) subscription.dispose();
  }

  /** Opens the generated source beside the Python editor without taking the focus. */
  async open(argument: PreviewArgument): Promise<void> {
    const client = this.client();
    if (client === undefined) {
      void vscode.window.showWarningMessage('The TileLang server is not running.');
      return;
    }
    const source = await client.sendRequest(GeneratedSourceRequest, params(argument));
    if ('error' in source) {
      void vscode.window.showWarningMessage(`No ${argument.target} source of ${argument.kernel}: ${source.error}`);
      return;
    }
    const document = await vscode.workspace.openTextDocument(vscode.Uri.parse(source.uri));
    await this.colour(document, argument.target);
    await vscode.window.showTextDocument(document, {
      viewColumn: vscode.ViewColumn.Beside,
      preserveFocus: true,
      preview: false,
    });
    const python = this.pythonEditors(argument.uri)[0];
    if (python !== undefined) this.follow(python, 'cursor');
  }

  /**
   * For the client's middleware: the text of a virtual document, however it was opened, and its line map along the way.
   * The text is asked for in the standard way, because that is what makes the server say when it changes.
   */
  async content(
    uri: vscode.Uri,
    token: vscode.CancellationToken,
    next: NextContent,
  ): Promise<string | null | undefined> {
    const text = await next(uri, token);
    const argument = previewArgument(uri);
    const source = await this.client()?.sendRequest(GeneratedSourceRequest, params(argument), token);
    // Where there is no source the server's text says why; where the kernel was edited meanwhile, it will be asked again.
    const mapped = source !== undefined && !('error' in source) && source.text === text;
    this.previews.set(uri.toString(), { argument, map: mapped ? source.lineMap : [] });
    return text;
  }

  listen(client: LanguageClient): void {
    client.onNotification(GeneratedSourceChanged, ({ uri }) => this.refresh(client, vscode.Uri.parse(uri)));
  }

  /** For a server that came up anew: it does not know what is open. */
  refreshAll(client: LanguageClient): void {
    for (const uri of this.previews.keys()) this.refresh(client, vscode.Uri.parse(uri));
  }

  private refresh(client: LanguageClient, uri: vscode.Uri): void {
    for (const provider of client.getFeature(TextDocumentContentRequest.method)?.getProviders() ?? []) {
      if (provider.scheme === uri.scheme) provider.onDidChangeEmitter.fire(uri);
    }
  }

  private async colour(document: vscode.TextDocument, target: Target): Promise<void> {
    const language = LANGUAGES[target];
    const known = await vscode.languages.getLanguages();
    if (document.languageId !== language && known.includes(language)) {
      await vscode.languages.setTextDocumentLanguage(document, language);
    }
  }

  private edited({ document, contentChanges }: vscode.TextDocumentChangeEvent): void {
    const uri = document.uri.toString();
    for (const preview of this.previews.values()) {
      if (!sameFile(preview.argument.uri, document.uri)) continue;
      for (const { range, text } of contentChanges) {
        preview.map = afterEdit(preview.map, {
          start: range.start,
          end: range.end,
          breaks: text.split(/\r\n|\r|\n/).length - 1,
        });
      }
    }
    const preview = this.previews.get(uri);
    const python = preview && this.pythonEditors(preview.argument.uri)[0];
    if (python !== undefined) this.follow(python, 'cursor', { reveal: false }); // new text, new lines to mark
  }

  /** The editor that the user moved in leads; what is linked to it is marked and brought into view. */
  private follow(leader: vscode.TextEditor, by: 'cursor' | 'scroll', { reveal } = { reveal: true }): void {
    // Scrolling that we cause in the other editor is reported like the user's and must not lead back.
    if (by === 'scroll' && leader !== vscode.window.activeTextEditor) return;
    const own = this.previews.get(leader.document.uri.toString());
    if (own !== undefined) this.followGenerated(leader, own, by, reveal);
    else if (leader.document.languageId === 'python') this.followPython(leader, by, reveal);
  }

  private followPython(leader: vscode.TextEditor, by: 'cursor' | 'scroll', reveal: boolean): void {
    const { start, end } = leader.selection;
    for (const [uri, preview] of this.previews) {
      if (!sameFile(preview.argument.uri, leader.document.uri)) continue;
      const lines = generatedLines(preview.map, start.line + 1, end.line + 1);
      const scrollTo = generatedLineFor(preview.map, topLine(leader));
      for (const editor of editorsOf(uri)) {
        if (by === 'cursor') this.mark(editor, lines);
        if (reveal) this.reveal(editor, by === 'cursor' ? lines[0] : scrollTo, by);
      }
    }
    if (by === 'cursor') this.mark(leader, []);
  }

  private followGenerated(leader: vscode.TextEditor, preview: Preview, by: 'cursor' | 'scroll', reveal: boolean): void {
    const { start, end } = leader.selection;
    const lines = pythonLines(preview.map, start.line + 1, end.line + 1);
    const siblings = lines.flatMap((line) => generatedLines(preview.map, line, line));
    const scrollTo = pythonLineFor(preview.map, topLine(leader));
    if (by === 'cursor') this.mark(leader, siblings);
    for (const editor of this.pythonEditors(preview.argument.uri)) {
      if (by === 'cursor') this.mark(editor, lines);
      if (reveal) this.reveal(editor, by === 'cursor' ? lines[0] : scrollTo, by);
    }
  }

  private mark(editor: vscode.TextEditor, lines: number[]): void {
    editor.setDecorations(
      this.linked,
      lines.map((line) => new vscode.Range(line - 1, 0, line - 1, 0)),
    );
  }

  private reveal(editor: vscode.TextEditor, line: number | undefined, by: 'cursor' | 'scroll'): void {
    if (line === undefined) return;
    const place =
      by === 'cursor'
        ? vscode.TextEditorRevealType.InCenterIfOutsideViewport
        : vscode.TextEditorRevealType.AtTop;
    editor.revealRange(new vscode.Range(line - 1, 0, line - 1, 0), place);
  }

  private pythonEditors(uri: string): vscode.TextEditor[] {
    return vscode.window.visibleTextEditors.filter((editor) => sameFile(uri, editor.document.uri));
  }
}

function params({ uri, kernel, target }: PreviewArgument): GeneratedSourceParams {
  return { textDocument: { uri }, kernel, target };
}

/** `tilelang-cuda:///<file>/<kernel>.cu` taken apart. */
function previewArgument(uri: vscode.Uri): PreviewArgument {
  const slash = uri.path.lastIndexOf('/');
  return {
    uri: vscode.Uri.from({ scheme: 'file', path: uri.path.slice(0, slash) }).toString(),
    kernel: uri.path.slice(slash + 1).replace(/\.[^.]*$/, ''),
    target: uri.scheme.slice('tilelang-'.length) as Target,
  };
}

/** Address texts differ in what they escape, so they are compared parsed. */
function sameFile(text: string, uri: vscode.Uri): boolean {
  return vscode.Uri.parse(text).toString() === uri.toString();
}

function editorsOf(uri: string): vscode.TextEditor[] {
  return vscode.window.visibleTextEditors.filter((editor) => editor.document.uri.toString() === uri);
}

function topLine(editor: vscode.TextEditor): number {
  return (editor.visibleRanges[0]?.start.line ?? 0) + 1;
}
