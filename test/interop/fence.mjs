// What the lock headers do to a client that knows nothing of them.
import assert from 'node:assert/strict'
import diagnostics from 'node:diagnostics_channel'
import { client, leases, ok, refused, shelf, test, url } from './setup.mjs'

const taken = `${shelf}/taken` // somebody took it over from the stale lease
const foreign = 'nobody'
const part = (on, no, more) => ({ shelf: on, no, ...more })
const names = (on) => ok(client().from('parts').select('no, name').eq('shelf', on).order('no'))

test('without the lock headers every write is refused', async () => {
  const parts = client().from('parts')
  for (const write of [
    parts.insert(part(shelf, 1)), parts.upsert(part(shelf, 1)),
    parts.update({ name: 'x' }).eq('shelf', shelf), parts.delete().eq('shelf', shelf),
  ]) {
    const error = await refused(write, 428, 'fencing_required')
    assert.equal(error.parameter, 'Lock-Key')
    assert.match(error.message, /Lock-Key is missing.*\/v1\/leases/)
  }
  const { 'Fencing-Token': _, ...others } = leases.own
  const error = await refused(client(others).from('parts').insert(part(shelf, 1)), 428, 'fencing_required')
  assert.equal(error.parameter, 'Fencing-Token')
  assert.deepEqual(await names(shelf), [])
})

test('under a stale token every write is refused', async () => {
  await ok(client(leases.newest).from('parts').insert(part(taken, 1, { name: 'kept' })), 201)
  const parts = client(leases.stale).from('parts')
  for (const write of [
    parts.insert(part(taken, 2)), parts.upsert(part(taken, 1, { name: 'x' })),
    parts.update({ name: 'x' }).eq('shelf', taken), parts.delete().eq('shelf', taken),
  ]) {
    const error = await refused(write, 412, 'stale_token')
    assert.match(error.message, /older than/)
    assert.equal(error.presented_token, leases.stale['Fencing-Token'])
    assert.equal(error.high_water_token, leases.newest['Fencing-Token'])
    assert.equal(error.retryable, false)
    assert.notEqual(error.audit_id, undefined)
  }
  assert.deepEqual(await names(taken), [{ no: 1, name: 'kept' }])
})

test('a lease of one shelf does not write another', async () => {
  const parts = client(leases.own).from('parts')
  await refused(parts.insert(part(foreign, 2)), 403, 'lock_scope')
  await refused(parts.update({ name: 'x' }).eq('shelf', foreign), 403, 'lock_scope')
  await refused(parts.delete().eq('shelf', foreign), 403, 'lock_scope')
  assert.deepEqual(await names(foreign), [{ no: 1, name: 'kept' }])
})

test('throwOnError throws the code', async () => {
  await assert.rejects(async () => client(leases.stale).from('parts').insert(part(taken, 2)).throwOnError(),
    { name: 'PostgrestError', code: 'stale_token', message: /older than/ })
})

test('setHeader brings the lock headers of one request', async () => {
  let write = client().from('parts').insert(part(shelf, 10))
  for (const [name, value] of Object.entries(leases.own)) write = write.setHeader(name, value)
  await ok(write, 201)
})

test('a lock key beyond ASCII fits into the headers', async () => {
  const umlaut = `${shelf}/größe`
  assert.deepEqual(await ok(client(leases.umlaut).from('parts').insert(part(umlaut, 1)).select('shelf'), 201), [{ shelf: umlaut }])
})

test('a worker takes a lease, writes, and is fenced off once it gave it back', async () => {
  const post = async (path, body) => {
    const headers = { 'Content-Type': 'application/json' }
    const answer = await fetch(url + path, { method: 'POST', headers, body: JSON.stringify(body) })
    assert.equal(answer.ok, true)
    return answer.json()
  }
  const own = `${shelf}/own`
  const lease = await post('/v1/leases', { key: `shelf:${own}` })
  const parts = client(lease.headers).from('parts')
  await ok(parts.insert(part(own, 1, { name: 'written' })), 201)
  const { key, holder, token } = lease
  await post('/v1/leases/release', { key, holder, token })
  await refused(parts.update({ name: 'late' }).eq('shelf', own), 412, 'lease_released')
  assert.deepEqual(await names(own), [{ no: 1, name: 'written' }])
})

test('the same Idempotency-Key writes once', async () => {
  const write = () => client(leases.own).from('parts')
    .insert(part(shelf, 20, { name: 'once' })).select('name').setHeader('Idempotency-Key', 'twenty')
  const first = await write()
  assert.deepEqual(await write(), first)
  assert.deepEqual({ data: first.data, status: first.status }, { data: [{ name: 'once' }], status: 201 })
})

test('an aborted write is settled by its Idempotency-Key', async () => {
  const write = () => client(leases.own).from('parts').insert(part(shelf, 30)).setHeader('Idempotency-Key', 'thirty')
  const abort = new AbortController()
  const sent = () => abort.abort()
  diagnostics.subscribe('undici:request:bodySent', sent)
  const { error, status } = await write().abortSignal(abort.signal)
  diagnostics.unsubscribe('undici:request:bodySent', sent)
  assert.deepEqual({ status, code: error.code }, { status: 0, code: '' })
  assert.match(error.message, /^AbortError: /)
  let again
  do again = await write()
  while (again.error?.code === 'idempotency_in_progress')
  assert.deepEqual({ error: again.error, status: again.status }, { error: null, status: 201 })
})
