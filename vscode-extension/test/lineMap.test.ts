/** Line maps: both directions, and staying right under edits of the Python text. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { afterEdit, generatedLineFor, generatedLines, pythonLineFor, pythonLines } from '../src/lineMap';

// Generated lines 1..6; Python lines 10, 12, 12, 15.
const map = [0, 10, 12, 12, 0, 15];

test('generated lines of a Python line, of several, of none', () => {
  assert.deepEqual(generatedLines(map, 12, 12), [3, 4]);
  assert.deepEqual(generatedLines(map, 10, 12), [2, 3, 4]);
  assert.deepEqual(generatedLines(map, 11, 11), []);
});

test('Python lines of generated lines, each once and without the unmapped', () => {
  assert.deepEqual(pythonLines(map, 1, 6), [10, 12, 15]);
  assert.deepEqual(pythonLines(map, 5, 5), []);
});

test('scrolling falls back to the nearest line', () => {
  assert.equal(generatedLineFor(map, 12), 3);
  assert.equal(generatedLineFor(map, 14), 3);
  assert.equal(generatedLineFor(map, 3), undefined);
  assert.equal(pythonLineFor(map, 5), 15);
  assert.equal(pythonLineFor([10, 0], 2), 10);
  assert.equal(pythonLineFor([0, 0], 1), undefined);
});

test('lines inserted above move the map', () => {
  const inserted = { start: { line: 4, character: 0 }, end: { line: 4, character: 0 }, breaks: 2 };
  assert.deepEqual(afterEdit(map, inserted), [0, 12, 14, 14, 0, 17]);
});

test('a line break at the end of a line moves only what is below it', () => {
  const enter = { start: { line: 11, character: 20 }, end: { line: 11, character: 20 }, breaks: 1 };
  assert.deepEqual(afterEdit(map, enter), [0, 10, 12, 12, 0, 16]);
});

test('a line break before the first character moves the line itself', () => {
  const enter = { start: { line: 11, character: 0 }, end: { line: 11, character: 0 }, breaks: 1 };
  assert.deepEqual(afterEdit(map, enter), [0, 10, 13, 13, 0, 16]);
});

test('deleted lines move up what is below and leave nothing beyond the text', () => {
  const removed = { start: { line: 10, character: 0 }, end: { line: 12, character: 0 }, breaks: 0 };
  assert.deepEqual(afterEdit(map, removed), [0, 10, 11, 11, 0, 13]);
});

test('an edit inside a line changes nothing', () => {
  const typed = { start: { line: 11, character: 3 }, end: { line: 11, character: 9 }, breaks: 0 };
  assert.equal(afterEdit(map, typed), map);
});
