/**
 * A door into the editor for the tests: answers JSON over HTTP on the loopback from VS Code's own extension API.
 *
 * Request: POST {"method": ..., "params": {...}}; answer: {"result": ...} or {"error": "..."}. The port is written to the
 * file that TILELANG_TESTER_PORT names.
 */
const vscode = require('vscode');
const fs = require('fs');
const http = require('http');

const provide = (what, path, ...rest) =>
  vscode.commands.executeCommand(`vscode.execute${what}Provider`, vscode.Uri.file(path), ...rest);
const span = (range) => [range.start.line, range.start.character, range.end.line, range.end.character];
const plain = (value) => (typeof value === 'string' ? value : value.value);
const editorOf = (path) => vscode.window.visibleTextEditors.find((one) => one.document.uri.fsPath === path);

const others = vscode.languages.createDiagnosticCollection('others');

const methods = {
  trusted: async () => vscode.workspace.isTrusted,

  /** Closes everything and drops unsaved edits; a dirty document would ask and wait for an answer. */
  async reset() {
    for (const document of vscode.workspace.textDocuments.filter((one) => one.isDirty && one.languageId === 'python')) {
      await vscode.window.showTextDocument(document);
      await vscode.commands.executeCommand('workbench.action.files.revert');
    }
    await vscode.commands.executeCommand('workbench.action.closeAllEditors');
    await vscode.commands.executeCommand('notifications.clearAll');
  },

  async open({ path }) {
    await vscode.window.showTextDocument(await vscode.workspace.openTextDocument(vscode.Uri.file(path)), {
      viewColumn: vscode.ViewColumn.One,
    });
  },

  diagnostics: async ({ path }) =>
    vscode.languages.getDiagnostics(vscode.Uri.file(path)).map((one) => ({
      message: one.message,
      severity: vscode.DiagnosticSeverity[one.severity].toLowerCase(),
      source: one.source,
      code: typeof one.code === 'object' ? one.code.value : one.code,
      range: span(one.range),
    })),

  /** A diagnostic as another extension makes it. */
  async report({ path, line, source, code, message }) {
    const found = new vscode.Diagnostic(new vscode.Range(line, 4, line, 5), message, vscode.DiagnosticSeverity.Warning);
    found.source = source;
    found.code = code;
    others.set(vscode.Uri.file(path), [found]);
  },

  workspaceSetting: async ({ section, name }) => vscode.workspace.getConfiguration(section).inspect(name)?.workspaceValue ?? null,

  hover: async ({ path, line, character }) => {
    const hovers = await provide('Hover', path, new vscode.Position(line, character));
    return hovers.flatMap((hover) => hover.contents.map(plain));
  },

  async inlayHints({ path }) {
    const hints = await provide('InlayHint', path, new vscode.Range(0, 0, 9999, 0));
    return hints.map((hint) => ({
      line: hint.position.line,
      label: typeof hint.label === 'string' ? hint.label : hint.label.map((part) => part.value).join(''),
    }));
  },

  async lenses({ path }) {
    const lenses = await provide('CodeLens', path, 999);
    return lenses.map((lens) => ({
      line: lens.range.start.line,
      title: lens.command?.title,
      command: lens.command?.command,
      arguments: lens.command?.arguments,
    }));
  },

  execute: async ({ command, args }) => (await vscode.commands.executeCommand(command, ...(args ?? []))) ?? null,

  /** Documents of a scheme that are open. */
  documents: async ({ scheme }) =>
    vscode.workspace.textDocuments
      .filter((document) => document.uri.scheme === scheme)
      .map((document) => ({
        path: document.uri.path,
        languageId: document.languageId,
        text: document.getText(),
      })),

  visible: async () =>
    vscode.window.visibleTextEditors.map((editor) => ({
      scheme: editor.document.uri.scheme,
      path: editor.document.uri.path,
      column: editor.viewColumn,
      top: editor.visibleRanges[0]?.start.line,
    })),

  /** Puts the cursor into a line, as a click would. */
  async cursor({ path, line }) {
    const editor = await vscode.window.showTextDocument(editorOf(path).document, editorOf(path).viewColumn);
    editor.selection = new vscode.Selection(line, 0, line, 0);
    editor.revealRange(editor.selection, vscode.TextEditorRevealType.InCenterIfOutsideViewport);
  },

  async replace({ path, find, by }) {
    const document = editorOf(path).document;
    const start = document.getText().indexOf(find);
    if (start < 0) throw new Error(`${find} does not occur in ${path}`);
    const range = new vscode.Range(document.positionAt(start), document.positionAt(start + find.length));
    return editorOf(path).edit((edit) => edit.replace(range, by));
  },

  /** Null takes the setting away. */
  setting: async ({ name, value }) =>
    vscode.workspace.getConfiguration('tilelang').update(name, value ?? undefined, vscode.ConfigurationTarget.Global),
};

exports.activate = (context) => {
  const server = http.createServer((request, response) => {
    let body = '';
    request.on('data', (chunk) => (body += chunk));
    request.on('end', async () => {
      let answer;
      try {
        const { method, params } = JSON.parse(body);
        answer = { result: (await methods[method](params ?? {})) ?? null };
      } catch (error) {
        answer = { error: String(error?.stack ?? error) };
      }
      response.end(JSON.stringify(answer));
    });
  });
  server.listen(0, '127.0.0.1', () => {
    const file = process.env.TILELANG_TESTER_PORT;
    fs.writeFileSync(`${file}.part`, String(server.address().port));
    fs.renameSync(`${file}.part`, file);
  });
  context.subscriptions.push({ dispose: () => server.close() });
};
