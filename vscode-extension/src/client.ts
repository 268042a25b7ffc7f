/**
 * The life of the connection to the server: start, restart, what is said when it cannot start or keeps dying.
 */
import * as vscode from 'vscode';
import {
  CloseAction,
  DidChangeConfigurationNotification,
  ErrorAction,
  LanguageClient,
  State,
  type ErrorHandler,
  type LanguageClientOptions,
  type Middleware,
} from 'vscode-languageclient/node';
import type { InitializationOptions } from './protocol';
import { hasPythonExtension, selectedInterpreter } from './python';
import { findServer, NoServer } from './server';
import { readServerSettings, readSettings } from './settings';

/** After this many unexpected ends within three minutes the server stays down until it is restarted by hand. */
const RESTARTS = 3;
const RESTART_WINDOW_MS = 3 * 60 * 1000;

export interface ClientParts {
  /** Added to the client's middleware. */
  middleware: Middleware;
  /** Called with a new client before it starts. */
  created(client: LanguageClient): void;
  /** Called whenever a client is up, also after the server ended unexpectedly and was started again. */
  running(client: LanguageClient): void;
}

export class Connection implements vscode.Disposable {
  private client: LanguageClient | undefined;
  private queue: Promise<void> = Promise.resolve();
  private readonly status = vscode.languages.createLanguageStatusItem('tilelang.server', { language: 'python' });

  constructor(
    private readonly directory: string,
    private readonly log: vscode.LogOutputChannel,
    private readonly parts: ClientParts,
  ) {
    this.status.name = 'TileLang';
    this.status.command = { command: 'tilelang.showOutput', title: 'Show output' };
  }

  /** The client if the server is up. */
  get running(): LanguageClient | undefined {
    return this.client?.isRunning() ? this.client : undefined;
  }

  /** Starts or restarts. Calls that arrive while one is under way are carried out one after the other. */
  restart(): Promise<void> {
    this.queue = this.queue.then(async () => {
      await this.stop();
      await this.start();
    });
    return this.queue;
  }

  /** Lets the server ask for the settings again. */
  async tellSettings(): Promise<void> {
    await this.running?.sendNotification(DidChangeConfigurationNotification.type, { settings: null });
    if (this.running !== undefined) this.show(readServerSettings().target || 'running', false);
  }

  async stop(): Promise<void> {
    const client = this.client;
    this.client = undefined;
    // A server that never came up has nothing to shut down and rejects; there is nothing left to do about it then.
    await client?.dispose(2000).catch((error: unknown) => this.log.debug(`stopping the server: ${String(error)}`));
  }

  dispose(): void {
    this.status.dispose();
    void this.stop();
  }

  private async start(): Promise<void> {
    this.show('starting', true);
    try {
      const settings = readSettings();
      const trusted = vscode.workspace.isTrusted;
      // An untrusted workspace must not choose the program that is started, and the Python extension reads the
      // workspace; VS Code itself withholds the workspace's values of the settings.
      const interpreter = settings.interpreter || (trusted ? await selectedInterpreter() : undefined);
      const server = await findServer(settings, interpreter, this.directory);
      this.log.info(`starting ${[server.command, ...server.args].join(' ')}`);
      const initialization: InitializationOptions = {
        preview: 'client',
        generatedSourceChanged: true,
        runFinished: true,
        trusted,
        interpreter: interpreter ?? null,
        ...readServerSettings(),
      };
      const client = new LanguageClient(
        'tilelang',
        'TileLang',
        { ...server, options: { cwd: this.directory } },
        this.clientOptions(initialization),
      );
      this.client = client;
      this.parts.created(client);
      client.onDidChangeState(({ newState }) => {
        if (newState !== State.Running) return;
        this.show(readServerSettings().target || 'running', false);
        this.parts.running(client);
      });
      await client.start();
    } catch (error) {
      this.failed(error instanceof Error ? error : new Error(String(error)));
    }
  }

  private clientOptions(initializationOptions: InitializationOptions): LanguageClientOptions {
    return {
      documentSelector: [
        { scheme: 'file', language: 'python' },
        { notebook: '*', language: 'python' },
      ],
      initializationOptions,
      outputChannel: this.log,
      middleware: {
        ...this.parts.middleware,
        workspace: {
          // The raw section holds settings that are the client's alone, and paths that are still to be expanded.
          configuration: ({ items }) =>
            items.map(({ section }) =>
              section === 'tilelang' ? { ...initializationOptions, ...readServerSettings() } : null,
            ),
        },
      },
      errorHandler: this.errorHandler(),
      // The error comes out of start() as well and is shown there.
      initializationFailedHandler: () => false,
      diagnosticPullOptions: { onChange: true, onTabs: true, onFocus: false },
    };
  }

  private errorHandler(): ErrorHandler {
    const ends: number[] = [];
    return {
      error: (_error, _message, count) => ({
        action: count !== undefined && count <= 3 ? ErrorAction.Continue : ErrorAction.Shutdown,
      }),
      closed: () => {
        const starting = !ends.length && this.client?.initializeResult === undefined;
        const now = Date.now();
        ends.push(now);
        const recent = ends.filter((end) => now - end < RESTART_WINDOW_MS).length;
        if (!starting && recent <= RESTARTS) {
          this.log.warn('the server ended unexpectedly and is started again');
          return { action: CloseAction.Restart, handled: true };
        }
        if (!starting) this.failed(new Error(`The TileLang server ended ${recent} times within three minutes.`));
        return { action: CloseAction.DoNotRestart, handled: true };
      },
    };
  }

  private failed(error: Error): void {
    const message =
      error instanceof NoServer ? error.message : `The TileLang server could not be started: ${error.message}`;
    this.log.error(message);
    this.show('not running', false, message);
    void this.offerHelp(message);
  }

  private async offerHelp(message: string): Promise<void> {
    const settings = 'Open Settings';
    const interpreter = 'Select Interpreter';
    const output = 'Show Output';
    const restart = 'Restart';
    const choices = hasPythonExtension() ? [interpreter, settings, output, restart] : [settings, output, restart];
    const choice = await vscode.window.showErrorMessage(message, ...choices);
    if (choice === settings) await vscode.commands.executeCommand('workbench.action.openSettings', 'tilelang.');
    if (choice === interpreter) await vscode.commands.executeCommand('python.setInterpreter');
    if (choice === output) this.log.show();
    if (choice === restart) await this.restart();
  }

  private show(text: string, busy: boolean, problem?: string): void {
    this.status.text = `TileLang: ${text}`;
    this.status.busy = busy;
    this.status.severity =
      problem === undefined ? vscode.LanguageStatusSeverity.Information : vscode.LanguageStatusSeverity.Error;
    if (problem === undefined) delete this.status.detail;
    else this.status.detail = problem;
  }
}
