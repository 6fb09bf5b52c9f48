// What an npm knows of its own arguments, as JSON, for npm.py beside this file.
//
//   node npm-ask.js DIR           its commands, aliases, options and shorthands
//   node npm-ask.js DIR --parse   what its parser makes of each argument list
//                                 of a JSON array on stdin
//
// DIR is where the npm is installed (…/lib/node_modules/npm). Nothing is run.
'use strict'
const { join } = require('node:path')

const load = (dir, ...places) => {
  for (const place of places) {
    try {
      return require(join(dir, place))
    } catch (error) {
      if (error.code !== 'MODULE_NOT_FOUND') throw error
    }
  }
  throw new Error(`${dir} is no npm that is known here`)
}

const dir = process.argv[2]
const { definitions, shorthands } = load(
  dir, 'node_modules/@npmcli/config/lib/definitions', 'lib/utils/config/index.js')
const types = Object.fromEntries(Object.entries(definitions).map(([key, { type }]) => [key, type]))

if (process.argv[3] === '--parse') {
  const nopt = load(dir, 'node_modules/nopt')
  for (const handler of ['invalidHandler', 'unknownHandler', 'abbrevHandler']) {
    nopt[handler] = () => {}
  }
  const { deref } = load(dir, 'lib/utils/cmd-list.js')
  const cases = JSON.parse(require('node:fs').readFileSync(0, 'utf8'))
  const parsed = cases.map((args) => {
    const { argv: { remain }, ...data } = nopt(types, { ...shorthands }, [...args], 0)
    return { remain, data, command: deref && deref(remain[0]) }
  })
  console.log(JSON.stringify(parsed))
} else {
  const { commands, aliases } = load(dir, 'lib/utils/cmd-list.js')
  const words = (type) => [type].flat().filter((each) => typeof each === 'string' && each)
  const options = Object.fromEntries(Object.entries(types).map(([key, type]) => [key, words(type)]))
  const { version } = require(join(dir, 'package.json'))
  console.log(JSON.stringify({ version, commands, aliases, options, shorthands }))
}
