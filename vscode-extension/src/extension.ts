/**
 * Entry point: puts the parts together and registers the commands. The server does the work.
 */
import * as vscode from 'vscode';
import type { LanguageClient } from 'vscode-languageclient/node';
import { CheckerOffer } from './checkerOffer';
import { Connection } from './client';
import { kernelToRun, previewsOfKernel } from './kernels';
import { Previews } from './preview';
import { CancellableProgress } from './progress';
import { PREVIEW, RUN_AND_ASSERT, type PreviewArgument } from './protocol';
import { onInterpreterChanged } from './python';
import { RunResults } from './runResult';
import { showRulePage } from './rulePages';
import { onSettingsChanged } from './settings';

export async function activate(context: vscode.ExtensionContext): Promise<void> {
  const log = vscode.window.createOutputChannel('TileLang', { log: true });
  const runs = new RunResults();
  const running = (): LanguageClient | undefined => connection.running;
  const previews = new Previews(running);
  const progress = new CancellableProgress(running);
  const connection: Connection = new Connection(context.extensionPath, log, {
    middleware: {
      provideTextDocumentContent: (uri, token, next) => previews.content(uri, token, next),
      window: { showDocument: showRulePage },
      handleWorkDoneProgress: (token, step, next) => progress.handle(token, step, () => next(token, step)),
    },
    created(client) {
      previews.listen(client);
      runs.listen(client);
    },
    running(client) {
      progress.clear();
      previews.refreshAll(client);
    },
  });
  const restart = (): void => void connection.restart();
  const command = vscode.commands.registerCommand;
  context.subscriptions.push(
    log,
    runs,
    previews,
    connection,
    new CheckerOffer(context.workspaceState, log),
    command(PREVIEW, (argument?: PreviewArgument) => preview(previews, argument)),
    command('tilelang.runKernel', runKernel),
    command('tilelang.restart', restart),
    command('tilelang.showOutput', () => log.show()),
    command('tilelang.showRuns', () => runs.reveal()),
    onSettingsChanged(restart, () => void connection.tellSettings()),
    vscode.workspace.onDidGrantWorkspaceTrust(restart),
  );
  await connection.restart();
  // After the first start: asking earlier would activate the Python extension even where a setting decides.
  context.subscriptions.push(await onInterpreterChanged(restart));
}

/** From a lens with its argument, from the command palette without: then the cursor decides, and the user between targets. */
async function preview(previews: Previews, argument: PreviewArgument | undefined): Promise<void> {
  const editor = vscode.window.activeTextEditor;
  if (argument !== undefined) return previews.open(argument);
  const found = editor === undefined ? [] : await previewsOfKernel(editor);
  if (found.length === 0) return sayNoKernel();
  const picked = await vscode.window.showQuickPick(
    found.map((one) => ({ label: one.target, description: one.kernel, argument: one })),
    { placeHolder: 'Target of the generated source' },
  );
  if (picked !== undefined) await previews.open(picked.argument);
}

async function runKernel(): Promise<void> {
  const editor = vscode.window.activeTextEditor;
  const argument = editor === undefined ? undefined : await kernelToRun(editor);
  if (argument === undefined) return sayNoKernel();
  await vscode.commands.executeCommand(RUN_AND_ASSERT, argument);
}

function sayNoKernel(): void {
  void vscode.window.showInformationMessage('There is no TileLang kernel in this file, or the server is not running.');
}
