/**
 * Which kernel the cursor is in. The server's lenses already say where kernels begin, so nothing is parsed here.
 */
import * as vscode from 'vscode';
import { PREVIEW, RUN_AND_ASSERT, type KernelArgument, type PreviewArgument } from './protocol';

/** What a lens of the server carries. */
interface KernelLens<Argument> {
  line: number;
  argument: Argument;
}

/** The kernel in or above the cursor's line, else the first of the file; undefined if the file has none. */
export async function kernelToRun(editor: vscode.TextEditor): Promise<KernelArgument | undefined> {
  const lenses = await kernelLenses<KernelArgument>(editor.document, RUN_AND_ASSERT);
  return nearest(lenses, editor.selection.active.line)[0]?.argument;
}

/** The targets that the kernel at the cursor can be shown for. */
export async function previewsOfKernel(editor: vscode.TextEditor): Promise<PreviewArgument[]> {
  const lenses = await kernelLenses<PreviewArgument>(editor.document, PREVIEW);
  return nearest(lenses, editor.selection.active.line).map((lens) => lens.argument);
}

async function kernelLenses<Argument>(
  document: vscode.TextDocument,
  command: string,
): Promise<KernelLens<Argument>[]> {
  const lenses = await vscode.commands.executeCommand<vscode.CodeLens[]>(
    'vscode.executeCodeLensProvider',
    document.uri,
    Number.MAX_SAFE_INTEGER, // resolve all of them: an unresolved lens has no command
  );
  return lenses
    .filter((lens) => lens.command?.command === command)
    .map((lens) => ({ line: lens.range.start.line, argument: lens.command?.arguments?.[0] as Argument }));
}

function nearest<Argument>(lenses: KernelLens<Argument>[], line: number): KernelLens<Argument>[] {
  const lines = lenses.map((lens) => lens.line);
  const above = lines.filter((start) => start <= line);
  const chosen = above.length > 0 ? Math.max(...above) : Math.min(...lines);
  return lenses.filter((lens) => lens.line === chosen);
}
