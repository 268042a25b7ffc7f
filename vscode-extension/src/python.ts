/**
 * Which Python the user works in, asked from the Python extension if there is one; nothing here depends on it.
 */
import type { PythonExtension } from '@vscode/python-extension';
import * as vscode from 'vscode';

const PYTHON_EXTENSION = 'ms-python.python';

/** Path of the interpreter selected in the Python extension; undefined without that extension or a selection. */
export async function selectedInterpreter(): Promise<string | undefined> {
  const environments = await environmentsApi();
  if (environments === undefined) return undefined;
  const folder = vscode.workspace.workspaceFolders?.[0]?.uri;
  const environment = await environments.resolveEnvironment(environments.getActiveEnvironmentPath(folder));
  return environment?.executable.uri?.fsPath;
}

/** Calls `changed` whenever another interpreter is selected. */
export async function onInterpreterChanged(changed: () => void): Promise<vscode.Disposable> {
  const environments = await environmentsApi();
  return environments?.onDidChangeActiveEnvironmentPath(() => changed()) ?? new vscode.Disposable(() => {});
}

export function hasPythonExtension(): boolean {
  return vscode.extensions.getExtension(PYTHON_EXTENSION) !== undefined;
}

async function environmentsApi(): Promise<PythonExtension['environments'] | undefined> {
  const extension = vscode.extensions.getExtension<PythonExtension>(PYTHON_EXTENSION);
  if (extension === undefined) return undefined;
  const api = extension.isActive ? extension.exports : await extension.activate();
  // Other packagings of the extension come without this part of the API.
  return (api as Partial<PythonExtension> | undefined)?.environments;
}
