/**
 * Finds the server to start: a configured executable, the one in the user's interpreter, or the one on PATH.
 */
import { execFile } from 'node:child_process';
import { access, constants } from 'node:fs/promises';
import * as path from 'node:path';
import { promisify } from 'node:util';
import type { Settings } from './settings';

const MODULE = 'tilelang_lsp';
const EXECUTABLE = process.platform === 'win32' ? 'tilelang-lsp.exe' : 'tilelang-lsp';

export interface ServerCommand {
  command: string;
  args: string[];
}

/** Nothing can be started; the message says what was tried and what to do. */
export class NoServer extends Error {}

/**
 * @param interpreter the interpreter kernels run in, if one is known
 * @param directory where to start processes: never the workspace, because Python would import the user's files from there
 * @throws NoServer
 */
export async function findServer(
  settings: Settings,
  interpreter: string | undefined,
  directory: string,
): Promise<ServerCommand> {
  if (settings.path !== '') {
    if (!(await isExecutable(settings.path))) {
      throw new NoServer(`The setting tilelang.path names ${settings.path}, which is not an executable file.`);
    }
    return { command: settings.path, args: settings.args };
  }
  if (interpreter !== undefined && (await hasServer(interpreter, directory))) {
    return { command: interpreter, args: ['-m', `${MODULE}.server`, ...settings.args] };
  }
  const onPath = await findOnPath(EXECUTABLE);
  if (onPath !== undefined) return { command: onPath, args: settings.args };
  const tried = interpreter === undefined ? 'no interpreter is selected' : `${interpreter} has no ${MODULE}`;
  throw new NoServer(
    `The TileLang server was not found: ${tried}, and tilelang-lsp is not on PATH. ` +
      'Install it with "pip install tilelang-lsp", or set tilelang.interpreter or tilelang.path.',
  );
}

async function hasServer(interpreter: string, directory: string): Promise<boolean> {
  const question = `import importlib.util as u, sys; sys.exit(u.find_spec("${MODULE}") is None)`;
  try {
    await promisify(execFile)(interpreter, ['-c', question], { cwd: directory, timeout: 10_000 });
    return true;
  } catch {
    return false; // not there, not a Python, or without the module: all mean that the next place is tried
  }
}

async function findOnPath(name: string): Promise<string | undefined> {
  for (const folder of (process.env['PATH'] ?? '').split(path.delimiter)) {
    // A relative entry of PATH would mean a file of the workspace.
    if (path.isAbsolute(folder) && (await isExecutable(path.join(folder, name)))) return path.join(folder, name);
  }
  return undefined;
}

async function isExecutable(file: string): Promise<boolean> {
  return access(file, constants.X_OK).then(
    () => true,
    () => false,
  );
}
