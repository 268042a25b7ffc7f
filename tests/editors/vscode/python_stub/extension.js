/**
 * `environments` of the Python extension's API with one environment, the interpreter that TILELANG_TEST_PYTHON names.
 */
const vscode = require('vscode');

exports.activate = () => {
  const changed = new vscode.EventEmitter();
  const path = process.env.TILELANG_TEST_PYTHON;
  return {
    ready: Promise.resolve(),
    environments: {
      getActiveEnvironmentPath: () => ({ id: path, path }),
      resolveEnvironment: async (wanted) => ({
        id: wanted.id,
        path: wanted.path,
        executable: { uri: vscode.Uri.file(wanted.path) },
      }),
      onDidChangeActiveEnvironmentPath: changed.event,
    },
  };
};
