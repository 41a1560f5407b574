// Buffers, JSON, zlib, crypto and worker threads; prints sums that depend on nothing else.
'use strict';

const assert = require('node:assert');
const crypto = require('node:crypto');
const zlib = require('node:zlib');
const { Worker, isMainThread, parentPort, workerData } = require('node:worker_threads');

function bytes(seed, length) {
  const result = Buffer.allocUnsafeSlow(length);
  let state = (seed * 2654435761) >>> 0 || 1;
  for (let i = 0; i < length; i++) {
    state = (Math.imul(state, 1103515245) + 12345) >>> 0;
    result[i] = (state >>> 16) % 31;
  }
  return result;
}

function digest(...parts) {
  const hash = crypto.createHash('sha256');
  for (const part of parts) hash.update(part);
  return hash.digest('hex');
}

function workload(seed) {
  const digests = [];
  for (let round = 0; round < 60; round++) {
    const input = bytes(seed * 1000 + round, 1 + round * round * 37);
    for (const [pack, unpack] of [
      [zlib.deflateSync, zlib.inflateSync],
      [zlib.gzipSync, zlib.gunzipSync],
      [zlib.brotliCompressSync, zlib.brotliDecompressSync],
    ]) {
      const options = { params: { [zlib.constants.BROTLI_PARAM_QUALITY]: 4 } };
      const packed = pack === zlib.brotliCompressSync ? pack(input, options) : pack(input);
      assert.ok(unpack(packed).equals(input));
    }
    const key = crypto.createHash('sha256').update(`key ${seed}`).digest();
    const cipher = crypto.createCipheriv('aes-256-cbc', key, Buffer.alloc(16));
    const sealed = Buffer.concat([cipher.update(input), cipher.final()]);
    const decipher = crypto.createDecipheriv('aes-256-cbc', key, Buffer.alloc(16));
    assert.ok(Buffer.concat([decipher.update(sealed), decipher.final()]).equals(input));
    const tree = { round, list: Array.from(input.subarray(0, 500)), nested: { text: 'ü'.repeat(round) } };
    const text = JSON.stringify(tree);
    assert.deepStrictEqual(JSON.parse(text), tree);
    digests.push(digest(sealed, text));
  }
  return digest(digests.join());
}

async function main() {
  const results = await Promise.all([1, 2, 3, 4].map((seed) => new Promise((resolve, reject) => {
    const worker = new Worker(__filename, { workerData: seed });
    worker.once('message', resolve);
    worker.once('error', reject);
  })));
  results.push(workload(5));
  const large = Array.from({ length: 100000 }, (_, i) => ({ id: i, name: `name ${i}` }));
  results.push(digest(JSON.stringify(JSON.parse(JSON.stringify(large)))));
  const packed = await Promise.all(Array.from({ length: 40 }, (_, i) => new Promise((resolve, reject) => {
    zlib.gzip(bytes(i, 50000), (error, data) => (error ? reject(error) : resolve(zlib.gunzipSync(data))));
  })));
  results.push(digest(...packed));
  const derived = await new Promise((resolve, reject) => {
    crypto.scrypt('secret', 'salt', 64, (error, data) => (error ? reject(error) : resolve(data)));
  });
  results.push(digest(derived));
  console.log(results.join('\n'));
}

if (isMainThread) {
  main().catch((error) => {
    console.error(error);
    process.exitCode = 1;
  });
} else {
  parentPort.postMessage(workload(workerData));
}
