/**
 * The result of "run & assert" as text for people: one line for the status bar, a report for the output.
 */
import type { RunCase, RunResult } from './protocol';

/** `matmul_relu: matches ref_program on NVIDIA H200, 0.41 ms, 312 TFLOP/s`. */
export function summary(result: RunResult): string {
  if (result.error !== null) return `${result.kernel}: ${firstLine(result.error)}`;
  const reference = result.reference ?? 'its reference';
  const verdict = result.passed ? `matches ${reference}` : `differs from ${reference}`;
  const failing = result.cases.find((one) => !one.passed);
  const where = failing === undefined ? '' : ` at ${sizes(failing)}: ${difference(failing)}`;
  return [`${result.kernel}: ${verdict} on ${result.device}${where}`, ...speed(result)].join(', ');
}

/** Everything that is known about the run, several lines. */
export function report(result: RunResult): string {
  const lines = [summary(result)];
  if (result.error !== null) lines.push(indent(result.error));
  for (const one of result.cases) {
    const [relative, absolute] = one.tolerance;
    // Relative errors count where a value is wrong by more than the absolute part allows.
    const alsoRelative = one.max_rel_error > 0 ? `, ${number(one.max_rel_error)} relative` : '';
    lines.push(
      `  ${one.passed ? 'pass' : 'FAIL'} ${sizes(one)}: largest error ${number(one.max_abs_error)}${alsoRelative} (rtol ${number(relative)}, atol ${number(absolute)})`,
    );
    if (!one.passed) lines.push(`    ${difference(one)}`);
    if (one.picture !== null) lines.push(indent(one.picture));
  }
  if (result.output !== '') lines.push('  printed:', indent(result.output));
  return lines.join('\n');
}

function speed(result: RunResult): string[] {
  const parts: string[] = [];
  if (result.latency_ms !== null) parts.push(`${number(result.latency_ms)} ms`);
  if (result.tflops !== null) parts.push(rate(result.tflops));
  if (result.gbytes_per_s !== null) parts.push(`${number(result.gbytes_per_s)} GB/s`);
  if (result.roofline_share !== null) parts.push(`${Math.round(result.roofline_share * 100)} % of the roofline`);
  if (result.latency_ms !== null && result.latency_ms > 0 && result.reference_ms !== null) {
    parts.push(`${number(result.reference_ms / result.latency_ms)}× the speed of torch`);
  }
  return parts;
}

/** In the unit that suits: `312 TFLOP/s`, `1.93 GFLOP/s` on a CPU. */
function rate(tflops: number): string {
  return tflops >= 1 ? `${number(tflops)} TFLOP/s` : `${number(tflops * 1000)} GFLOP/s`;
}

function difference(one: RunCase): string {
  const count = `${one.mismatched} of ${one.total} elements differ`;
  if (one.first_mismatch === null) return count;
  const values =
    one.found === null || one.expected === null ? '' : `: ${number(one.found)} instead of ${number(one.expected)}`;
  return `${count}, first at [${one.first_mismatch.join(', ')}]${values}`;
}

function sizes(one: RunCase): string {
  return one.sizes.length === 0 ? 'its sizes' : one.sizes.map(([name, size]) => `${name}=${size}`).join(', ');
}

/** Four significant digits, without the exponent where a person would not write one. */
function number(value: number): string {
  return String(Number(value.toPrecision(4)));
}

function firstLine(text: string): string {
  return text.split('\n', 1)[0] ?? text;
}

function indent(text: string): string {
  return text.trimEnd().replace(/^/gm, '    ');
}
