// Updating and deleting, under the lease of this file's shelf.
import assert from 'node:assert/strict'
import { client, leases, ok, refused, requests, shelf, test } from './setup.mjs'

const parts = () => client(leases.own).from('parts')
const add = (...numbers) => ok(parts().insert(numbers.map((no) => ({ shelf, no, name: 'before' }))), 201)
const names = async (from, to) => (await ok(parts().select('name').eq('shelf', shelf).gte('no', from).lte('no', to).order('no'))).map((part) => part.name)

test('update changes what matches and returns nothing', async () => {
  await add(1, 2, 3)
  assert.equal(await ok(parts().update({ name: 'after', tags: null }).eq('shelf', shelf).in('no', [1, 3]), 204), null)
  assert.deepEqual(await names(1, 3), ['after', 'before', 'after'])
})

test('update with select returns the rows as they are now', async () => {
  await add(10)
  assert.deepEqual(await ok(parts().update({ quantity: 7 }).match({ shelf, no: 10 }).select('no, quantity')), [{ no: 10, quantity: 7 }])
  assert.equal(requests[1].headers['content-type'], 'application/json')
})

test('what a write returns is sorted as asked', async () => {
  await add(11, 12, 13)
  const rows = await ok(parts().update({ name: 'after' }).eq('shelf', shelf).gte('no', 11).lte('no', 13).select('name').order('no', { ascending: false }))
  assert.equal(rows.length, 3)
  const numbers = await ok(parts().delete().eq('shelf', shelf).gte('no', 11).lte('no', 13).select('no').order('no', { ascending: false }))
  assert.deepEqual(numbers.map((part) => part.no), [13, 12, 11])
})

test('update with count', async () => {
  await add(20, 21)
  const { count, status } = await parts().update({ name: 'after' }, { count: 'exact' }).eq('shelf', shelf).gte('no', 20).lte('no', 29)
  assert.deepEqual({ count, status }, { count: 2, status: 204 })
})

test('update of nothing changes nothing', async () => {
  assert.deepEqual(await ok(parts().update({ name: 'after' }).eq('shelf', shelf).eq('no', 999).select()), [])
})

test('update with maybeSingle makes an object of the row', async () => {
  await add(30)
  assert.deepEqual(await ok(parts().update({ name: 'after' }).eq('shelf', shelf).eq('no', 30).select('name').maybeSingle()), { name: 'after' })
})

test('update without its values is refused', async () => {
  await refused(parts().update({}).eq('shelf', shelf), 400, 'empty_body')
})

test('delete removes what matches', async () => {
  await add(40, 41)
  assert.equal(await ok(parts().delete().eq('shelf', shelf).eq('no', 40), 204), null)
  assert.deepEqual(await names(40, 41), ['before'])
})

test('delete with select and count returns what is gone', async () => {
  await add(50, 51)
  const { data, count, status } = await parts().delete({ count: 'exact' }).eq('shelf', shelf).or('no.eq.50,no.eq.51').select('no')
  assert.deepEqual({ data, count, status }, { data: [{ no: 50 }, { no: 51 }], count: 2, status: 200 })
})

test('maxAffected holds back an update or delete of more rows', async () => {
  await add(60, 61)
  const both = (write) => write.eq('shelf', shelf).in('no', [60, 61])
  for (const write of [parts().update({ name: 'after' }), parts().delete()]) {
    const error = await refused(both(write).maxAffected(1), 409, 'PGRST124')
    assert.equal(error.type, 'urn:fencegate:problem:max_affected_exceeded')
  }
  assert.deepEqual(await names(60, 61), ['before', 'before'])
  await ok(both(parts().update({ name: 'after' })).maxAffected(2), 204)
  assert.deepEqual(await names(60, 61), ['after', 'after'])
})

test('writes of every row are refused', async () => {
  await refused(parts().delete(), 403, 'lock_scope')
  await refused(parts().update({ name: 'after' }).neq('no', 0), 403, 'lock_scope')
})
