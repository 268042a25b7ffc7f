/**
 * Two settings that make type checkers quiet about eager kernels, where `A: T.Tensor((M, K), dtype)` is no type expression
 * to them: what to write and where. No editor in here.
 */

export const PYRIGHT_RULES = ['reportInvalidTypeForm', 'reportRedeclaration'];
export const MYPY_CODES = ['valid-type', 'no-redef'];

export type Checker = 'pyright' | 'mypy';

/** A report of any checker, as editors hold it. */
export interface Report {
  source: string | undefined;
  code: string | undefined;
  /** The line that it stands on. */
  line: string;
}

/** The checker that misreads a kernel with this report, if it is one of these. */
export function misread(report: Report): Checker | undefined {
  const source = report.source?.toLowerCase() ?? '';
  // Pyright reports both the annotation and the parameter that it hides, mypy both at the annotation.
  const isKernel = /\bTensor\(/.test(report.line) || /^\s*(async\s+)?def\s/.test(report.line);
  if (!isKernel || report.code === undefined) return undefined;
  if (/pylance|pyright/.test(source) && PYRIGHT_RULES.includes(report.code)) return 'pyright';
  if (/mypy/.test(source) && MYPY_CODES.includes(report.code)) return 'mypy';
  return undefined;
}

/** `overrides` of python.analysis with the two reports off. */
export function withoutReports(overrides: Record<string, string>): Record<string, string> {
  return { ...overrides, ...Object.fromEntries(PYRIGHT_RULES.map((rule) => [rule, 'none'])) };
}

/** Arguments of mypy with the two codes off. */
export function withoutCodes(args: readonly string[]): string[] {
  const wanted = MYPY_CODES.map((code) => `--disable-error-code=${code}`);
  return [...args, ...wanted.filter((arg) => !args.includes(arg))];
}

/** `pyproject.toml` with the two reports off, if pyright is configured there: it then ignores the editor's settings. */
export function pyprojectWithoutReports(text: string): string | undefined {
  const header = /^\[tool\.(?:based)?pyright\][^\S\n]*$/m.exec(text);
  if (header === null) return undefined;
  const at = header.index + header[0].length;
  const end = text.slice(at).search(/^\[/m);
  const table = end < 0 ? text.slice(at) : text.slice(at, at + end);
  const missing = PYRIGHT_RULES.filter((rule) => !new RegExp(`^${rule}\\s*=`, 'm').test(table));
  return `${text.slice(0, at)}${missing.map((rule) => `\n${rule} = "none"`).join('')}${text.slice(at)}`;
}
