// What the cases share: the stock client, the leases that interop_test.go took,
// and what to expect of an answer.
import assert from 'node:assert/strict'
import nodeTest from 'node:test'
import { PostgrestClient } from '@supabase/postgrest-js'

export const url = process.env.FENCEGATE_URL

// shelf is this file's alone. Files run side by side.
export const shelf = process.env.FENCEGATE_SHELF

// leases are the headers of the leases that this file has: its own shelf's, a
// stale one and the newest of a second shelf, and one beyond ASCII.
export const leases = JSON.parse(process.env.FENCEGATE_LEASES)

// requests is what the client has sent in this case.
export const requests = []

function recorded(address, { method, headers, body, signal }) {
  const { pathname, searchParams } = new URL(address)
  const query = [...searchParams].map((pair) => pair.join('=')).join('&')
  requests.push({ method, path: pathname, query, headers, body })
  return fetch(address, { method, headers, body, signal })
}

const line = ({ method, path, query, headers: { prefer = '', accept = '' }, body = '' }) =>
  `${method} ${path}?${query} ${prefer} ${accept} ${body}`

// client sends the given headers with every request, as a worker sends those of
// its lease.
export const client = (headers = {}) => new PostgrestClient(`${url}/rest`, { headers, fetch: recorded })

// test adds a case. Its failure shows what was sent.
export function test(name, run) {
  nodeTest(name, { timeout: 60_000 }, async () => {
    requests.length = 0
    try {
      await run()
    } catch (error) {
      throw [error, ...requests.map(line)]
    }
  })
}

// ok awaits a success and returns its data.
export async function ok(request, status = 200) {
  const answer = await request
  assert.equal(answer.error, null)
  assert.equal(answer.status, status)
  return answer.data
}

// refused awaits an error and returns it. code is what applications test.
export async function refused(request, status, code) {
  const answer = await request
  assert.equal(answer.data, null)
  assert.deepEqual({ status: answer.status, code: answer.error?.code }, { status, code })
  assert.equal(answer.error.status, status)
  assert.notEqual(answer.error.message, '')
  assert.equal(answer.error.outcome, 'not_applied')
  return answer.error
}
