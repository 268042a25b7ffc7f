/**
 * Questions to a line map: which generated lines belong to a Python line and back. Plain functions, no editor.
 *
 * A map has one entry per generated line: the Python line it came from, counted from 1, or 0 for none.
 * Every line number here counts from 1.
 */
export type LineMap = readonly number[];

/** Generated lines that came from the Python lines `first` to `last`, both included. */
export function generatedLines(map: LineMap, first: number, last: number): number[] {
  return map.flatMap((python, index) => (python >= first && python <= last ? [index + 1] : []));
}

/** Python lines that the generated lines `first` to `last` came from, ascending, each once. */
export function pythonLines(map: LineMap, first: number, last: number): number[] {
  const found = new Set(map.slice(first - 1, last).filter((line) => line > 0));
  return [...found].sort((a, b) => a - b);
}

/** The generated line to show for a Python line: its own first one, else that of the nearest line above it. */
export function generatedLineFor(map: LineMap, python: number): number | undefined {
  let best: number | undefined;
  let bestPython = 0;
  map.forEach((line, index) => {
    if (line > bestPython && line <= python) {
      bestPython = line;
      best = index + 1;
    }
  });
  return best;
}

/** The Python line to show for a generated line: its own, else that of the nearest mapped line below, then above. */
export function pythonLineFor(map: LineMap, generated: number): number | undefined {
  const below = map.slice(Math.max(0, generated - 1)).find((line) => line > 0);
  return below ?? map.slice(0, Math.max(0, generated - 1)).findLast((line) => line > 0);
}

export interface Edit {
  /** Where the replaced text began and ended; lines and characters count from 0, as editors give them. */
  start: { line: number; character: number };
  end: { line: number; character: number };
  /** Line breaks in the text that replaced it. */
  breaks: number;
}

/** The map after an edit of the Python text, so that it stays right until the server answers for the new text. */
export function afterEdit(map: LineMap, { start, end, breaks }: Edit): LineMap {
  const shift = breaks - (end.line - start.line);
  if (shift === 0) return map;
  // An edit that ends before the first character of a line leaves that line whole: it moves with those below.
  const lastTouched = end.character === 0 ? end.line : end.line + 1;
  const lastWritten = start.line + breaks + 1;
  return map.map((line) => {
    if (line > lastTouched) return line + shift;
    return line > start.line ? Math.min(line, lastWritten) : line;
  });
}
