/** Which reports of type checkers are about kernels, and where the settings go that turn them off. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { misread, pyprojectWithoutReports, withoutCodes, withoutReports } from '../src/checkerSettings';

const annotation = '    A: T.Tensor((M, K), T.float16)';

test('reports of annotations and of the parameters they hide', () => {
  assert.equal(misread({ source: 'Pylance', code: 'reportInvalidTypeForm', line: annotation }), 'pyright');
  assert.equal(misread({ source: 'basedpyright', code: 'reportRedeclaration', line: 'def matmul(A, B):' }), 'pyright');
  assert.equal(misread({ source: 'Mypy', code: 'no-redef', line: annotation }), 'mypy');
});

test('other reports, other places and our own', () => {
  assert.equal(misread({ source: 'Pylance', code: 'reportInvalidTypeForm', line: 'x: f()' }), undefined);
  assert.equal(misread({ source: 'Pylance', code: 'reportAttributeAccessIssue', line: annotation }), undefined);
  assert.equal(misread({ source: 'Mypy', code: 'reportRedeclaration', line: annotation }), undefined);
  assert.equal(misread({ source: 'tilelang', code: 'valid-type', line: annotation }), undefined);
  assert.equal(misread({ source: 'Pylance', code: undefined, line: annotation }), undefined);
});

test('what is set already stays', () => {
  assert.deepEqual(withoutReports({ reportMissingImports: 'error', reportRedeclaration: 'error' }), {
    reportMissingImports: 'error',
    reportInvalidTypeForm: 'none',
    reportRedeclaration: 'none',
  });
  assert.deepEqual(withoutCodes(['--strict', '--disable-error-code=no-redef']), [
    '--strict',
    '--disable-error-code=no-redef',
    '--disable-error-code=valid-type',
  ]);
});

test('a project that configures pyright gets them in its table', () => {
  const text = '[project]\nname = "x"\n\n[tool.pyright]\nreportRedeclaration = "warning"\n\n[tool.other]\na = 1\n';
  assert.equal(
    pyprojectWithoutReports(text),
    text.replace('[tool.pyright]\n', '[tool.pyright]\nreportInvalidTypeForm = "none"\n'),
  );
  assert.equal(pyprojectWithoutReports('[tool.pyright]'), '[tool.pyright]\nreportInvalidTypeForm = "none"\nreportRedeclaration = "none"');
  assert.equal(pyprojectWithoutReports('[project]\nname = "x"\n'), undefined);
});
