// Prints a line of JSON for each case that has ended, for node_test.go.
import { format } from 'node:util'

export default async function* (events) {
  for await (const { type, data } of events) {
    if (type !== 'test:pass' && type !== 'test:fail') continue
    const error = data.details.error
    yield JSON.stringify({ name: data.name, error: error && format(error.cause ?? error) }) + '\n'
  }
}
