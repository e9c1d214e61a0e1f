// Upserting, under the lease of this file's shelf.
import assert from 'node:assert/strict'
import { client, leases, ok, refused, requests, shelf, test } from './setup.mjs'

const parts = () => client(leases.own).from('parts')
const read = (from, to) =>
  ok(parts().select('no, name, quantity, serial').eq('shelf', shelf).gte('no', from).lte('no', to).order('no'))

test('upsert inserts what is new and changes what is there', async () => {
  await ok(parts().upsert({ shelf, no: 1, name: 'old', quantity: 3 }), 201)
  await ok(parts().upsert({ shelf, no: 1, name: 'new' }), 201)
  assert.deepEqual(await read(1, 1), [{ no: 1, name: 'new', quantity: 3, serial: null }])
  assert.equal(requests[0].headers.prefer, 'resolution=merge-duplicates')
})

test('an array sets every column that any of its rows names', async () => {
  await ok(parts().insert([{ shelf, no: 10, name: 'ten', serial: 's10' }]), 201)
  const rows = [{ shelf, no: 10, name: 'X' }, { shelf, no: 11, serial: 's11' }]
  const { data, count } = await parts().upsert(rows, { count: 'exact' }).select('no')
  assert.deepEqual({ data, count }, { data: [{ no: 10 }, { no: 11 }], count: 2 })
  assert.deepEqual(await read(10, 11), [{ no: 10, name: 'X', quantity: 1, serial: null }, { no: 11, name: null, quantity: 1, serial: 's11' }])
})

test('defaultToNull: false gives the rows of an array the defaults', async () => {
  await ok(parts().upsert([{ shelf, no: 20, name: 'X' }, { shelf, no: 21, quantity: 2 }], { defaultToNull: false }), 201)
  assert.deepEqual(await read(20, 21), [{ no: 20, name: 'X', quantity: 1, serial: null }, { no: 21, name: 'unnamed', quantity: 2, serial: null }])
})

test('onConflict names another unique key', async () => {
  await ok(parts().insert({ shelf, no: 30, serial: 's30' }), 201)
  await ok(parts().upsert({ shelf, no: 31, serial: 's30', name: 'renumbered' }, { onConflict: 'shelf, serial' }), 201)
  assert.deepEqual(await read(30, 31), [{ no: 31, name: 'renumbered', quantity: 1, serial: 's30' }])
})

test('onConflict needs a unique key', async () => {
  await refused(parts().upsert({ shelf, no: 35 }, { onConflict: 'name' }), 422, '42P10')
})

test('ignoreDuplicates leaves alone what is there', async () => {
  await ok(parts().insert({ shelf, no: 40, name: 'kept' }), 201)
  const rows = [{ shelf, no: 40, name: 'lost' }, { shelf, no: 41, name: 'new' }]
  assert.deepEqual(await ok(parts().upsert(rows, { ignoreDuplicates: true }).select('no, name'), 201), [{ no: 41, name: 'new' }])
  assert.deepEqual((await read(40, 41)).map((part) => part.name), ['kept', 'new'])
})

test('two rows for one place are refused', async () => {
  await refused(parts().upsert([{ shelf, no: 50 }, { shelf, no: 50 }]), 422, '21000')
})
