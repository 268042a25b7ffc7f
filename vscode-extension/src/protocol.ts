/**
 * The custom part of the protocol between editor and server, as docs/protocol.md describes it: names and shapes, no logic.
 */
import { NotificationType, RequestType } from 'vscode-languageclient/node';

export const TARGETS = ['cuda', 'hip', 'metal', 'cpu'] as const;
export type Target = (typeof TARGETS)[number];

/** Commands that the server advertises; the client library registers them in the editor by itself. */
export const RUN_AND_ASSERT = 'tilelang.runAndAssert';

/** Command that the server's lenses carry because of `initializationOptions.preview = "client"`; registered by us. */
export const PREVIEW = 'tilelang.preview';

export interface InitializationOptions {
  /** Lenses carry `tilelang.preview` for the client instead of `tilelang.showGeneratedSource`. */
  preview: 'client';
  /** Send `tilelang/generatedSourceChanged`. */
  generatedSourceChanged: true;
  /** Send `tilelang/runFinished`. */
  runFinished: true;
  /** Whether kernels may be run. */
  trusted: boolean;
  /** Interpreter in which kernels run; null lets the server use its own. */
  interpreter: string | null;
  /** Target that kernels are checked for, such as `cuda:sm_90`; empty: the project's. */
  target: string;
  /** Rules and families that are shown, and that are not; null: as the project says. */
  select: string[] | null;
  ignore: string[] | null;
  /** Kernel -> parameter or size -> value. */
  specialisations: Record<string, Record<string, string | number | boolean>>;
  /** Seconds. */
  runTimeout: number;
}

export interface KernelArgument {
  uri: string;
  kernel: string;
}

export interface PreviewArgument extends KernelArgument {
  target: Target;
}

export interface GeneratedSourceParams {
  textDocument: { uri: string };
  kernel: string;
  target: Target;
}

export interface GeneratedSource {
  /** `tilelang-cuda:///<absolute path>/<kernel>.cu` and alike. */
  uri: string;
  kernel: string;
  target: Target;
  languageId: string;
  text: string;
  /** For each emitted line the Python line it came from, counted from 1; 0 where there is none. */
  lineMap: number[];
  /** Version of the Python document. */
  version: number | null;
}

export interface GeneratedSourceError {
  error: string;
}

export const GeneratedSourceRequest = new RequestType<
  GeneratedSourceParams,
  GeneratedSource | GeneratedSourceError,
  void
>('tilelang/generatedSource');

export const GeneratedSourceChanged = new NotificationType<{ uri: string }>('tilelang/generatedSourceChanged');

/** One run of a kernel at one size against its reference; `RunCase` of tilelang/facts/reports.py. */
export interface RunCase {
  sizes: [string, number][];
  passed: boolean;
  max_abs_error: number;
  max_rel_error: number;
  /** Relative and absolute. */
  tolerance: [number, number];
  mismatched: number;
  total: number;
  first_mismatch: number[] | null;
  found: number | null;
  expected: number | null;
  picture: string | null;
}

/** What "run & assert" answers; `RunResult` of tilelang/facts/reports.py. */
export interface RunResult {
  kernel: string;
  passed: boolean;
  device: string;
  reference: string | null;
  cases: RunCase[];
  latency_ms: number | null;
  reference_ms: number | null;
  tflops: number | null;
  gbytes_per_s: number | null;
  roofline_share: number | null;
  error: string | null;
  error_span: unknown;
  output: string;
}

export const RunFinished = new NotificationType<RunResult>('tilelang/runFinished');
