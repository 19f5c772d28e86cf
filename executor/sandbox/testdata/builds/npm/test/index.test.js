import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { readFileSync } from 'node:fs';
import { Worker } from 'node:worker_threads';
import { double } from '../dist/index.js';

test('the bundle', () => assert.is(double(21), 42));

test('a worker', async () => {
  const w = new Worker('require("worker_threads").parentPort.postMessage(7)', { eval: true });
  assert.is(await new Promise((heard) => w.on('message', heard)), 7);
});

test('the file', () => assert.match(readFileSync('dist/index.js', 'utf8'), /export/));

test.run();
