/**
 * Work that the server lets the user cancel is shown as a notification with a Cancel button; the client library alone
 * would show it in the status bar, where it cannot be cancelled.
 */
import * as vscode from 'vscode';
import {
  WorkDoneProgressCancelNotification,
  type LanguageClient,
  type ProgressToken,
  type WorkDoneProgressBegin,
  type WorkDoneProgressEnd,
  type WorkDoneProgressReport,
} from 'vscode-languageclient/node';

type Step = WorkDoneProgressBegin | WorkDoneProgressReport | WorkDoneProgressEnd;

interface Shown {
  report(message: string | undefined, percentage: number | undefined): void;
  end(): void;
}

export class CancellableProgress {
  private readonly shown = new Map<ProgressToken, Shown>();

  constructor(private readonly client: () => LanguageClient | undefined) {}

  /** For the client's middleware. */
  handle(token: ProgressToken, step: Step, next: () => void): void {
    if (step.kind === 'begin' && step.cancellable === true) {
      this.shown.set(token, this.show(token, step));
      return;
    }
    const shown = this.shown.get(token);
    if (shown === undefined) {
      next();
    } else if (step.kind === 'report') {
      shown.report(step.message, step.percentage);
    } else {
      this.shown.delete(token);
      shown.end();
      next(); // the library forgets the token
    }
  }

  /** Ends what is shown; a server that is gone will not. */
  clear(): void {
    for (const shown of this.shown.values()) shown.end();
    this.shown.clear();
  }

  private show(token: ProgressToken, begin: WorkDoneProgressBegin): Shown {
    let end = (): void => {};
    const done = new Promise<void>((resolve) => (end = resolve));
    let bar: vscode.Progress<{ message?: string; increment?: number }> | undefined;
    let reached = 0;
    const report: Shown['report'] = (message, percentage) => {
      const increment = percentage === undefined ? 0 : Math.max(0, percentage - reached);
      reached += increment;
      bar?.report({ ...(message === undefined ? {} : { message }), increment });
    };
    void vscode.window.withProgress(
      { location: vscode.ProgressLocation.Notification, title: begin.title, cancellable: true },
      (progress, cancelled) => {
        bar = progress;
        report(begin.message, begin.percentage);
        cancelled.onCancellationRequested(() => {
          void this.client()?.sendNotification(WorkDoneProgressCancelNotification.type, { token });
        });
        return done;
      },
    );
    return { report, end: () => end() };
  }
}
