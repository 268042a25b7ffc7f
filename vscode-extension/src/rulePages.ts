/**
 * The page of a rule, which the server asks to show as a file, is shown rendered.
 */
import * as vscode from 'vscode';
import type { ShowDocumentRequest } from 'vscode-languageclient/node';

export const showRulePage: ShowDocumentRequest.MiddlewareSignature = async (params, token, next) => {
  if (!/\/rules\/[\w-]+\.md$/.test(params.uri)) return next(params, token);
  await vscode.commands.executeCommand('markdown.showPreviewToSide', vscode.Uri.parse(params.uri));
  return { success: true };
};
