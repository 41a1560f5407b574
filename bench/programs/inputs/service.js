// Serves requests to itself: JSON, buffers outside V8's heap, compression and digests. Its one argument is how
// many. Prints a digest that depends on nothing else.
'use strict';

const assert = require('node:assert');
const crypto = require('node:crypto');
const zlib = require('node:zlib');

const SESSIONS = 200;

function numbers(seed) {
  let state = seed >>> 0 || 1;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state >>> 8;
  };
}

function document(next) {
  const items = Array.from({ length: 5 + (next() % 40) }, () => ({
    id: next(),
    title: `item ${next() % 1000}`,
    price: (next() % 10000) / 100,
  }));
  return { session: next() % SESSIONS, items };
}

function serve(next, sessions, digest) {
  const request = document(next);
  const body = Buffer.from(JSON.stringify(request));
  const packed = next() % 4 === 0 ? zlib.gzipSync(body, { level: 1 }) : body;
  const frame = Buffer.allocUnsafeSlow(packed.length + 8);
  frame.writeUInt32LE(packed.length, 0);
  frame.writeUInt32LE(request.session, 4);
  packed.copy(frame, 8);
  digest.update(crypto.createHash('sha1').update(frame).digest());
  // What a session was sent last is kept until it is sent something else.
  sessions.set(request.session, frame);
  const reply = packed === body ? frame.subarray(8) : zlib.gunzipSync(frame.subarray(8));
  assert.deepStrictEqual(JSON.parse(reply.toString()).items.length, request.items.length);
}

const sessions = new Map();
const digest = crypto.createHash('sha256');
const next = numbers(1);
for (let left = Number(process.argv[2]); left > 0; left--) serve(next, sessions, digest);
console.log(digest.digest('hex'), sessions.size);
