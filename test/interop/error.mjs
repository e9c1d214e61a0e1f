// Errors as applications test them, and the names of what is not offered.
import assert from 'node:assert/strict'
import { client, leases, ok, refused, shelf, test } from './setup.mjs'

const parts = () => client(leases.own).from('parts')
const films = () => client().from('films')

test('23505: a key that is there already', async () => {
  await ok(parts().insert({ shelf, no: 1 }), 201)
  const error = await refused(parts().insert({ shelf, no: 1 }), 409, '23505')
  assert.equal(error.constraint, 'parts_pkey')
})

test('23514: a check', async () => {
  const error = await refused(parts().insert({ shelf, no: 2, quantity: 0 }), 422, '23514')
  assert.equal(error.constraint, 'parts_quantity_positive')
})

test('23502: a null where none may be', async () => {
  const error = await refused(parts().insert({ shelf, no: 3, quantity: null }), 422, '23502')
  assert.equal(error.column, 'quantity')
})

test('22P02: a value of another kind', async () => {
  await refused(parts().insert({ shelf, no: 'four' }), 422, '22P02')
  await refused(films().select().eq('year', 'soon'), 422, '22P02')
})

test('isDistinct from null is no null to the server', async () => {
  await refused(films().select().isDistinct('year', null), 422, '22P02')
})

test('PGRST205: no such table', async () => {
  await refused(client(leases.own).from('nope').select(), 404, 'PGRST205')
  await refused(client(leases.own).from('nope').insert({ shelf }), 404, 'PGRST205')
})

test('PGRST204 and 42703: no such column', async () => {
  await refused(parts().insert({ shelf, no: 5, nope: 1 }), 422, 'PGRST204')
  await refused(parts().insert([{ shelf, no: 5, nope: 1 }]), 422, 'PGRST204')
  await refused(films().select('nope'), 422, '42703')
  await refused(films().select().eq('nope', 1), 422, '42703')
  await refused(films().select().order('nope'), 422, '42703')
})

test('42501: an operation that is not configured', async () => {
  await refused(client(leases.own).from('films').insert({ id: 9 }), 403, '42501')
})

test('planned and estimated counts are not offered', async () => {
  for (const count of ['planned', 'estimated']) {
    const error = await refused(films().select('*', { count }), 400, 'PGRST122')
    assert.match(error.message, new RegExp(`count=${count}`))
    await refused(parts().insert({ shelf, no: 6 }, { count }), 400, 'PGRST122')
  }
})

test('csv, geojson, explain and stripNulls are not offered', async () => {
  for (const narrow of [
    (q) => q.csv(), (q) => q.geojson(), (q) => q.stripNulls(),
    (q) => q.explain(), (q) => q.explain({ analyze: true, format: 'json' }),
  ]) {
    await refused(narrow(films().select()), 406, 'PGRST107')
    await refused(narrow(parts().insert({ shelf, no: 7 }).select()), 406, 'PGRST107')
  }
  assert.deepEqual(await ok(parts().select().eq('no', 7)), [])
})

test('embedding and aggregates are not offered', async () => {
  const embedding = await refused(films().select('id, actors(name)'), 400, 'PGRST100')
  assert.match(embedding.message, /embedding .* isn't offered/)
  const aggregate = await refused(films().select('takings.sum()'), 400, 'PGRST100')
  assert.match(aggregate.message, /aggregate functions aren't offered/)
  await refused(films().select('id').order('name', { referencedTable: 'actors' }), 400, 'PGRST100')
  await refused(films().select('id').limit(1, { referencedTable: 'actors' }), 400, 'PGRST100')
  await refused(films().select('id').or('a.eq.1', { referencedTable: 'actors' }), 400, 'PGRST100')
})

test('a list whose quotes the client did not escape is refused, not read otherwise', async () => {
  await refused(films().select().in('title', ['say "a, b"']), 400, 'PGRST100')
})

test('limit means nothing for a write', async () => {
  await refused(parts().update({ name: 'x' }).eq('shelf', shelf).select().limit(1), 400, 'PGRST100')
})

test('head hides what an error says, but not that it is one', async () => {
  const { count, error, status } = await films().select('*', { head: true, count: 'exact' }).eq('year', 'soon')
  assert.deepEqual({ count, error, status }, { count: null, error: { message: '' }, status: 422 })
})
