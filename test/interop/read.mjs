// What the client reads, and how it sees it.
import assert from 'node:assert/strict'
import { client, ok, refused, requests, test } from './setup.mjs'

const films = () => client().from('films')

test('select without columns reads all of them', async () => {
  const [film] = await ok(films().select().eq('id', 3))
  assert.deepEqual(film, {
    id: 3, title: 'Brazil', year: 1985, watched: false, takings: 3, tags: ['satire'], meta: { director: 'Gilliam' },
    aired: '[5,15)', plot: 'A clerk meets the ministry of information', shown: null,
  })
})

test('select takes aliases, casts and paths, with spaces between them', async () => {
  const columns = `
    title, name: title, year::text,
    meta->>director, lead: meta->stars->>lead`
  assert.deepEqual(await ok(films().select(columns).eq('id', 1)),
    [{ title: 'Alien', name: 'Alien', year: '1979', director: 'Scott', lead: 'Weaver' }])
})

test('integers beyond 2^53 are rounded by the client, not as text', async () => {
  const [film] = await ok(films().select('takings, exact: takings::text').eq('id', 1))
  assert.deepEqual(film, { takings: 9007199254740992, exact: '9007199254740993' })
})

const ids = async (request, status) => (await ok(request, status)).map((film) => film.id)

test('order sorts by several columns', async () => {
  const both = films().select('id').order('watched', { ascending: false, nullsFirst: false }).order('year')
  assert.deepEqual(await ids(both), [1, 2, 3, 5, 4])
})

test('order puts nulls first or last', async () => {
  assert.deepEqual(await ids(films().select('id').order('year', { nullsFirst: true })), [4, 1, 3, 2, 5])
  assert.deepEqual(await ids(films().select('id').order('year', { ascending: false, nullsFirst: false })), [5, 2, 3, 1, 4])
})

test('order sorts by a path', async () => {
  assert.deepEqual(await ids(films().select('id').order('meta->>director')), [2, 3, 5, 1, 4])
})

test('limit', async () => {
  assert.deepEqual(await ids(films().select('id').order('id').limit(2)), [1, 2])
  assert.deepEqual(await ids(films().select('id').limit(0)), [])
})

test('range counts from 0 and takes both ends', async () => {
  assert.deepEqual(await ids(films().select('id').order('id').range(1, 3)), [2, 3, 4])
})

test('count exact counts what there is, not what is returned', async () => {
  const { data, count, error, status } = await films().select('id', { count: 'exact' }).lt('id', 5).order('id').range(1, 2)
  assert.deepEqual({ data, count, error, status }, { data: [{ id: 2 }, { id: 3 }], count: 4, error: null, status: 206 })
})

test('a range past the end is an error where there is a count', async () => {
  const error = await refused(films().select('id', { count: 'exact' }).range(6, 7), 416, 'PGRST103')
  assert.match(error.message, /6 .* 5 rows/)
})

test('head counts without reading', async () => {
  const { data, count, error, status } = await films().select('*', { count: 'exact', head: true }).is('watched', true)
  assert.deepEqual({ data, count, error, status }, { data: null, count: 2, error: null, status: 200 })
  assert.equal(requests[0].method, 'HEAD')
})

test('nothing found is no error', async () => {
  assert.deepEqual(await ok(films().select().eq('id', 99)), [])
})

test('maybeSingle makes an object of one row and null of none', async () => {
  assert.deepEqual(await ok(films().select('id').eq('id', 1).maybeSingle()), { id: 1 })
  assert.equal(await ok(films().select('id').eq('id', 99).maybeSingle()), null)
})

test('maybeSingle of several rows is an error', async () => {
  const { data, error, status } = await films().select('id').maybeSingle()
  assert.deepEqual({ data, status, code: error.code }, { data: null, status: 406, code: 'PGRST116' })
})

test('schema chooses among those of the configuration', async () => {
  assert.deepEqual(await ids(client().schema('shop').from('films').select('id').eq('id', 1)), [1])
  assert.equal(requests[0].headers['accept-profile'], 'shop')
  await refused(client().schema('public').from('films').select('id'), 406, 'PGRST106')
})

test('reading needs no lease and minds none', async () => {
  const headers = { 'Lock-Key': 'films', 'Lock-Holder': 'nobody', 'Fencing-Token': '1' }
  assert.deepEqual(await ids(client(headers).from('films').select('id').eq('id', 1)), [1])
})
