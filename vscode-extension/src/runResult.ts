/**
 * Shows how a run ended: a line in the status bar, and the whole report in an output of its own. The message is the server's.
 */
import * as vscode from 'vscode';
import type { LanguageClient } from 'vscode-languageclient/node';
import { RunFinished, type RunResult } from './protocol';
import { report, summary } from './runReport';

export class RunResults implements vscode.Disposable {
  private readonly output = vscode.window.createOutputChannel('TileLang Runs');
  private readonly status = vscode.window.createStatusBarItem('tilelang.run', vscode.StatusBarAlignment.Left);

  constructor() {
    this.status.name = 'TileLang Run';
    this.status.command = 'tilelang.showRuns';
  }

  dispose(): void {
    this.output.dispose();
    this.status.dispose();
  }

  listen(client: LanguageClient): void {
    client.onNotification(RunFinished, (result) => this.show(result));
  }

  /** The output with all reports of this session. */
  reveal(): void {
    this.output.show(true);
  }

  private show(result: RunResult): void {
    this.output.appendLine(`${new Date().toLocaleTimeString()}  ${report(result)}\n`);
    this.status.text = `$(${result.passed ? 'pass' : 'error'}) ${result.kernel}`;
    this.status.tooltip = summary(result);
    this.status.backgroundColor = result.passed ? undefined : new vscode.ThemeColor('statusBarItem.errorBackground');
    this.status.show();
  }
}
