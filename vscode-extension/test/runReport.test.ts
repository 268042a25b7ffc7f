/** What people read after a run. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { RunCase, RunResult } from '../src/protocol';
import { report, summary } from '../src/runReport';

const passing: RunCase = {
  sizes: [
    ['M', 1024],
    ['N', 512],
  ],
  passed: true,
  max_abs_error: 0.000488281,
  max_rel_error: 0.0009,
  tolerance: [0.01, 0.01],
  mismatched: 0,
  total: 524288,
  first_mismatch: null,
  found: null,
  expected: null,
  picture: null,
};

const result: RunResult = {
  kernel: 'matmul_relu',
  passed: true,
  device: 'CPU (no GPU found)',
  reference: 'ref_program',
  cases: [passing],
  latency_ms: 0.41239,
  reference_ms: 0.82478,
  tflops: 312.49,
  gbytes_per_s: null,
  roofline_share: 0.3152,
  error: null,
  error_span: null,
  output: '',
};

test('a passing run says against what, where, and how fast', () => {
  assert.equal(
    summary(result),
    'matmul_relu: matches ref_program on CPU (no GPU found), 0.4124 ms, 312.5 TFLOP/s, 32 % of the roofline, ' +
      '2× the speed of torch',
  );
});

test('a slow run is told in a unit that suits, and no relative error where none counts', () => {
  assert.match(summary({ ...result, tflops: 0.001932 }), /1\.932 GFLOP\/s/);
  assert.match(report({ ...result, cases: [{ ...passing, max_rel_error: 0 }] }), /largest error 0\.0004883 \(rtol/);
});

test('a failing run says at which sizes and shows the first mismatch', () => {
  const failing: RunCase = {
    ...passing,
    passed: false,
    mismatched: 3,
    first_mismatch: [0, 17],
    found: 0,
    expected: 1.5,
    picture: '..X.\n....',
  };
  const failed: RunResult = { ...result, passed: false, cases: [passing, failing], latency_ms: null, tflops: null };
  assert.match(summary(failed), /differs from ref_program .* at M=1024, N=512: 3 of 524288 elements differ/);
  assert.match(report(failed), /first at \[0, 17\]: 0 instead of 1\.5\n {4}\.\.X\.\n {4}\.\.\.\./);
});

test('an error stands for the result, all of it in the report only', () => {
  const broken: RunResult = { ...result, passed: false, error: 'no torch\npip install torch', cases: [] };
  assert.equal(summary(broken), 'matmul_relu: no torch');
  assert.match(report(broken), /pip install torch/);
});

test('what the kernel printed is part of the report', () => {
  assert.match(report({ ...result, output: 'hello\n' }), /printed:\n {4}hello$/);
});
