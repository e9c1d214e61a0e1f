// One object, calls, and trial runs: single(), rpc() and rollback().
import assert from 'node:assert/strict'
import { client, leases, ok, refused, requests, shelf, test, url } from './setup.mjs'

const db = client(leases.own)
const parts = () => db.from('parts')
const films = () => client().from('films')
const read = (from, to) => ok(parts().select('no, quantity').eq('shelf', shelf).gte('no', from).lte('no', to).order('no'))

test('single makes an object of one row', async () => {
  assert.deepEqual(await ok(films().select('id, title').eq('id', 1).single()), { id: 1, title: 'Alien' })
  assert.equal(requests[0].headers.accept, 'application/vnd.pgrst.object+json')
})

test('single of no row or several is an error', async () => {
  for (const request of [films().select().eq('id', 99), films().select().lt('id', 3)]) await refused(request.single(), 406, 'PGRST116')
})

test('single counts as well', async () => {
  const { data, count } = await films().select('id', { count: 'exact' }).eq('id', 1).single()
  assert.deepEqual({ data, count }, { data: { id: 1 }, count: 1 })
})

test('single returns the row that was written', async () => {
  assert.deepEqual(await ok(parts().insert({ shelf, no: 1, quantity: 2 }).select('no, quantity').single(), 201), { no: 1, quantity: 2 })
  assert.deepEqual(await ok(parts().upsert({ shelf, no: 1, quantity: 3 }).select('quantity').single(), 201), { quantity: 3 })
  assert.deepEqual(await ok(parts().update({ quantity: 4 }).match({ shelf, no: 1 }).select('quantity').single()), { quantity: 4 })
  assert.deepEqual(await ok(parts().delete().match({ shelf, no: 1 }).select('quantity').single()), { quantity: 4 })
})

test('single undoes a write of several rows', async () => {
  const two = [{ shelf, no: 10 }, { shelf, no: 11 }]
  await refused(parts().insert(two).select().single(), 406, 'PGRST116')
  assert.deepEqual(await read(10, 11), [])
  await ok(parts().insert(two), 201)
  const both = (write) => write.eq('shelf', shelf).in('no', [10, 11]).select().single()
  await refused(both(parts().update({ quantity: 9 })), 406, 'PGRST116')
  await refused(both(parts().delete()), 406, 'PGRST116')
  assert.deepEqual(await read(10, 11), [{ no: 10, quantity: 1 }, { no: 11, quantity: 1 }])
})

test('single of a write that matches nothing is an error', async () => {
  await refused(parts().update({ quantity: 9 }).match({ shelf, no: 999 }).select().single(), 406, 'PGRST116')
})

test('rpc calls a registered statement', async () => {
  await ok(parts().insert({ shelf, no: 20, quantity: 10 }), 201)
  assert.deepEqual(await ok(db.rpc('take_parts', { shelf, no: 20, amount: 3 })), [{ quantity: 7 }])
  assert.deepEqual(await ok(db.rpc('take_parts', { shelf, no: 20, amount: 3 }).single()), { quantity: 4 })
  assert.deepEqual(await read(20, 20), [{ no: 20, quantity: 4 }])
  assert.equal(requests[1].path, '/rest/rpc/take_parts')
})

test('rpc holds a statement to the rows that it must answer', async () => {
  await ok(parts().insert({ shelf, no: 21, quantity: 2 }), 201)
  const { error, status } = await db.rpc('take_parts', { shelf, no: 21, amount: 5 })
  assert.deepEqual({ status, outcome: error.outcome }, { status: 409, outcome: 'not_applied' })
  assert.deepEqual(await read(21, 21), [{ no: 21, quantity: 2 }])
})

test('rpc needs the lease of what it writes', async () => {
  const args = { shelf, no: 22, amount: 1 }
  await ok(parts().insert({ shelf, no: 22, quantity: 2 }), 201)
  await refused(client().rpc('take_parts', args), 428, 'fencing_required')
  await refused(client(leases.stale).rpc('take_parts', { ...args, shelf: `${shelf}/taken` }), 412, 'stale_token')
  await refused(client(leases.newest).rpc('take_parts', args), 403, 'lock_scope')
  assert.deepEqual(await read(22, 22), [{ no: 22, quantity: 2 }])
})

test('rpc answers a function as its type says', async () => {
  await ok(parts().insert([{ shelf, no: 30, quantity: 1 }, { shelf, no: 31, quantity: 2 }]), 201)
  const args = { p_shelf: shelf, p_from: 30, p_to: 39 }
  assert.equal(await ok(db.rpc('shop_sum', args)), 3)
  assert.deepEqual(await ok(db.rpc('shop_list', args)), [{ no: 30, quantity: 1 }, { no: 31, quantity: 2 }])
  assert.equal(await ok(db.rpc('shop_clear', args), 204), null)
  assert.deepEqual(await read(30, 39), [])
})

test('rpc passes on what a function raises', async () => {
  const error = await refused(db.rpc('shop_fail', { p_shelf: shelf }), 422, 'P0001')
  assert.equal(error.message, 'not today')
})

test('rpc of what is not there is an error', async () => {
  await refused(db.rpc('nope', {}), 404, 'PGRST202')
  await refused(db.rpc('shop_sum', { p_shelf: shelf, p_nope: 1 }), 404, 'PGRST202')
})

test('rollback answers what a write would do, and leaves no trace', async () => {
  assert.deepEqual(await ok(parts().insert({ shelf, no: 40, quantity: 5 }).select('no, quantity').rollback(), 201), [{ no: 40, quantity: 5 }])
  assert.deepEqual(await read(40, 40), [])
  await ok(parts().insert({ shelf, no: 41 }), 201)
  assert.deepEqual(await ok(parts().update({ quantity: 9 }).match({ shelf, no: 41 }).select('quantity').rollback()), [{ quantity: 9 }])
  await ok(parts().delete().match({ shelf, no: 41 }).rollback(), 204)
  assert.deepEqual(await read(41, 41), [{ no: 41, quantity: 1 }])
})

test('rollback meets what the write would meet', async () => {
  await ok(parts().insert({ shelf, no: 50 }), 201)
  await refused(parts().insert({ shelf, no: 50 }).rollback(), 409, '23505')
  await refused(client(leases.stale).from('parts').insert({ shelf: `${shelf}/taken`, no: 1 }).rollback(), 412, 'stale_token')
})

test('rollback meets deferred constraints too', async () => {
  const answer = await fetch(`${url}/v1/leases`, {
    method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify({ key: 'order:nowhere' }),
  })
  const lines = client((await answer.json()).headers).from('order_lines')
  await refused(lines.insert({ order_no: 'nowhere', line: 1, sku: 'SKU-1', quantity: 1 }).rollback(), 409, '23503')
})
