// Inserting, under the lease of this file's shelf.
import assert from 'node:assert/strict'
import { client, leases, ok, refused, requests, shelf, test } from './setup.mjs'

const parts = () => client(leases.own).from('parts')

test('one object takes the defaults of what it leaves out', async () => {
  assert.equal(await ok(parts().insert({ shelf, no: 1, name: null }), 201), null)
  assert.deepEqual(await ok(parts().select('name, quantity').match({ shelf, no: 1 })), [{ name: null, quantity: 1 }])
})

test('select returns what was written', async () => {
  assert.deepEqual(await ok(parts().insert({ shelf, no: 2 }).select(), 201), [{
    shelf, no: 2, name: 'unnamed', quantity: 1, serial: null, weight: null, price: null, attributes: null, tags: null,
    made_at: null, 'odd,name': null,
  }])
  assert.deepEqual(await ok(parts().insert({ shelf, no: 3 }).select('no, amount: quantity'), 201), [{ no: 3, amount: 1 }])
})

test('the rows of an array miss nothing: what one leaves out is null', async () => {
  const rows = [{ shelf, no: 10, name: 'bolt' }, { shelf, no: 11, serial: 's' }]
  assert.deepEqual(await ok(parts().insert(rows).select('no, name, serial'), 201),
    [{ no: 10, name: 'bolt', serial: null }, { no: 11, name: null, serial: 's' }])
  assert.equal(requests[0].query, 'columns="shelf","no","name","serial"&select=no,name,serial')
})

test('defaultToNull: false gives the rows of an array the defaults', async () => {
  const rows = [{ shelf, no: 20, name: 'bolt' }, { shelf, no: 21, quantity: 5 }]
  assert.deepEqual(await ok(parts().insert(rows, { defaultToNull: false }).select('no, name, quantity'), 201),
    [{ no: 20, name: 'bolt', quantity: 1 }, { no: 21, name: 'unnamed', quantity: 5 }])
  assert.equal(requests[0].headers.prefer, 'missing=default, return=representation')
})

test('what default headers and two selects prefer alike is preferred once', async () => {
  const { data, status } = await client({ ...leases.own, Prefer: 'return=representation' })
    .from('parts').insert({ shelf, no: 4 }).select().select('no')
  assert.deepEqual({ data, status }, { data: [{ no: 4 }], status: 201 })
  assert.equal(requests[0].headers.prefer, 'return=representation, return=representation, return=representation')
})

test('count counts the rows', async () => {
  const { count, status } = await parts().insert([{ shelf, no: 30 }, { shelf, no: 31 }], { count: 'exact' })
  assert.deepEqual({ count, status }, { count: 2, status: 201 })
})

test('values keep their kinds', async () => {
  const part = {
    shelf, no: 40, weight: 12, price: 1.25, attributes: { a: [1, null, { b: 'ü' }] }, tags: ['a', 'b,c', 'd"e', ''],
    made_at: '2026-01-01T12:00:00+00:00', name: 'größe 🔩 "x" \\ , )', 'odd,name': 'x',
  }
  const [written] = await ok(parts().insert([part]).select(Object.keys(part).map((column) => `"${column}"`).join()), 201)
  assert.deepEqual(written, part)
})

test('a Date is taken', async () => {
  const made_at = new Date(Date.UTC(2026, 0, 1, 12, 0, 0, 250))
  const [part] = await ok(parts().insert({ shelf, no: 41, made_at }).select('made_at'), 201)
  assert.equal(new Date(part.made_at).getTime(), made_at.getTime())
})

test('a BigInt is kept to the last digit', async () => {
  assert.deepEqual(await ok(parts().insert({ shelf, no: 42, weight: 9007199254740993n }).select('weight::text'), 201),
    [{ weight: '9007199254740993' }])
})

test('one bad row keeps all others out', async () => {
  await refused(parts().insert([{ shelf, no: 50, quantity: 1 }, { shelf, no: 51, quantity: 0 }]), 422, '23514')
  assert.deepEqual(await ok(parts().select('no').in('no', [50, 51])), [])
})

test('no rows at all are refused', async () => {
  await refused(parts().insert([]), 400, 'empty_batch')
})

test('schema chooses where to write', async () => {
  const own = client(leases.own).schema('shop').from('parts')
  await ok(own.insert({ shelf, no: 60 }), 201)
  assert.equal(requests[0].headers['content-profile'], 'shop')
  await refused(client(leases.own).schema('public').from('parts').insert({ shelf, no: 61 }), 406, 'PGRST106')
})
