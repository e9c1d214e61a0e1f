// A worker that writes through fencegate, with nothing but fetch:
//
//   FENCE_URL=http://127.0.0.1:8080 node worker.mts SKU-1 3
//
// (Node.js before 22.18 runs what tsc makes of it, from version 20 on.) It
// sells three pieces from one shelf: it reads how many are left and writes one
// less. Class Lease is what to copy. Exit code 75: somebody else has the lock; 76:
// the lease was lost, and nothing was written after that.

declare const process: { env: Record<string, string | undefined>; argv: string[]; exitCode: number }

const url = process.env.FENCE_URL ?? 'http://127.0.0.1:8080'
const credential: Record<string, string> = process.env.FENCE_API_KEY ? { Authorization: `Bearer ${process.env.FENCE_API_KEY}` } : {}
const ttlMs = Number(process.env.TTL_MS ?? 10_000)
const pauseMs = Number(process.env.PAUSE_SECONDS ?? 0.2) * 1000 // stands for the work
const sleep = (ms: number) => new Promise((done) => setTimeout(done, ms))

// Lost: the lease can't be relied upon any more. Stop.
class Lost extends Error {}
// Answer: the gateway answered, but no success.
class Answer extends Error {
  status: number
  refused: string | null
  constructor(answer: Response, problem: { code?: string; detail?: string }) {
    super(`${answer.status} ${problem.code}: ${problem.detail}`)
    this.status = answer.status
    this.refused = answer.headers.get('Fencing-Refused')
  }
}

async function call(method: string, path: string, body?: unknown, headers: Record<string, string> = {}, timeoutMs = 10_000): Promise<any> {
  const answer = await fetch(url + path, {
    method, headers: { 'Content-Type': 'application/json', ...credential, ...headers },
    body: body === undefined ? undefined : JSON.stringify(body), signal: AbortSignal.timeout(timeoutMs),
    redirect: 'error', // fetch would take the holder along to any host
  })
  const text = await answer.text()
  if (answer.ok) return text === '' ? null : JSON.parse(text)
  const isProblem = answer.headers.get('Content-Type') === 'application/problem+json'
  throw new Answer(answer, isProblem ? JSON.parse(text) : {})
}

// The first stands still while the machine is suspended, the second may be set.
const clocks = () => ({ monotonic: performance.now(), wall: Date.now() })

interface Granted {
  key: string; holder: string; token: string // 63 bits, which don't fit in a number
  ttl_ms: number; renew_after_ms: number; headers: Record<string, string>
}

class Lease {
  private ended = new AbortController()
  private timer: ReturnType<typeof setTimeout> | undefined
  private renewing: Promise<void> = Promise.resolve()
  private sent: ReturnType<typeof clocks> // before the request: a slow answer must not lengthen the lease
  private granted: Granted

  private constructor(sent: ReturnType<typeof clocks>, granted: Granted) {
    this.sent = sent
    this.granted = granted
    this.schedule(granted.renew_after_ms)
  }

  static async acquire(key: string): Promise<Lease> {
    const once = { 'Idempotency-Key': crypto.randomUUID() }
    const ask = async () => new Lease(clocks(), await call('POST', '/v1/leases', { key, ttl_ms: ttlMs, client: 'worker.ts' }, once))
    return ask().catch((error) => error instanceof Answer ? Promise.reject(error) : ask()) // no answer: it meets its own grant
  }

  // leftMs is for how long the lease may be relied upon, less what clocks may drift.
  leftMs(): number {
    const now = clocks()
    const passed = Math.max(now.monotonic - this.sent.monotonic, now.wall - this.sent.wall)
    return this.granted.ttl_ms * 0.99 - 10 - passed
  }

  // check: call it right before anything that needs the lock. Timers are late after a pause.
  check(): void {
    if (this.leftMs() <= 0) this.ended.abort(new Lost('the lease is over'))
    this.ended.signal.throwIfAborted()
  }

  private claim() {
    const { key, holder, token } = this.granted
    return { key, holder, token }
  }

  private schedule(ms: number): void {
    if (!this.ended.signal.aborted) this.timer = setTimeout(() => { this.renewing = this.renew() }, ms)
  }

  private async renew(): Promise<void> {
    if (this.ended.signal.aborted || this.leftMs() <= 0) return
    const sent = clocks()
    try {
      // A third of what is left, so that one call into the void leaves time for others.
      const granted = await call('POST', '/v1/leases/renew', { ...this.claim(), ttl_ms: ttlMs }, {}, Math.max(100, this.leftMs() / 3))
      this.sent = sent
      this.granted = granted
      this.schedule(granted.renew_after_ms)
    } catch (error) {
      if (error instanceof Answer && error.refused) this.ended.abort(new Lost(error.message))
      else this.schedule(Math.max(50, this.leftMs() / 10))
    }
  }

  // write writes once, however often it is sent; throws Lost when the lease is over.
  async write(method: string, path: string, body: unknown): Promise<any> {
    const once = { 'Idempotency-Key': crypto.randomUUID() }
    for (;;) {
      this.check()
      try {
        return await call(method, path, body, { ...this.granted.headers, ...once }, Math.max(100, this.leftMs()))
      } catch (error) {
        if (error instanceof Answer && error.refused) this.ended.abort(new Lost(error.message)) // the token is dead: never again
        else if (error instanceof Answer && ![502, 503, 504].includes(error.status)) throw error
      } // else no answer: it may have been applied, and is so once
      await sleep(Math.min(500, Math.max(0, this.leftMs())))
    }
  }

  async release(): Promise<void> {
    this.ended.abort(new Lost('released'))
    clearTimeout(this.timer)
    await this.renewing // no renewal after the release
    await call('POST', '/v1/leases/release', this.claim(), {}, 3000).catch(() => { /* it runs out by itself */ })
  }
}

async function main(sku: string, pieces: number): Promise<number> {
  const row = `/rest/inventory?sku=eq.${encodeURIComponent(sku)}`
  let lease: Lease | undefined
  try {
    lease = await Lease.acquire(`inventory:${sku}`)
    for (let n = 0; n < pieces; n++) {
      lease.check()
      const [{ available }] = await call('GET', `${row}&select=available`)
      await lease.write('PATCH', row, { available: available - 1 })
      console.log(`sold one, ${available - 1} left`)
      await sleep(pauseMs)
    }
    return 0
  } catch (error) {
    console.log(error instanceof Lost ? 'stopped:' : 'failed:', String(error))
    return error instanceof Lost ? 76 : error instanceof Answer && error.status === 423 ? 75 : 1
  } finally {
    await lease?.release()
  }
}

process.exitCode = await main(process.argv[2] ?? 'SKU-1', Number(process.argv[3] ?? 1))
