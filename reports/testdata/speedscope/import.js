// Reads files with the importer of the speedscope package, and prints what it
// understood:
//
//	node import.js FOLDER-OF-THE-PACKAGE FILE
//
// The package is one script for browsers. Its functions are hoisted, so the
// importers can be handed out before the page, of which there is none here, is
// drawn and fails.
'use strict'
const fs = require('fs')
const path = require('path')
const vm = require('vm')

const [folder, file] = process.argv.slice(2)
const release = path.join(folder, 'dist', 'release')
const script = fs.readdirSync(release).find(name => /^speedscope-.*\.js$/.test(name))
let source = fs.readFileSync(path.join(release, script), 'utf8')

function importer(kind) {
  const found = source.match(new RegExp('Importing as ' + kind + '"\\),(\\w+)\\('))
  if (!found) throw new Error('the package has no importer of a ' + kind)
  return found[1]
}

const start = '"use strict";(()=>{'
if (!source.startsWith(start)) throw new Error('the package is built in another way')
const handOut = `globalThis.imports={own:x=>${importer('speedscope json file')}(x),trace:x=>${importer('Trace Event Format profile')}(x)};`
source = start + handOut + source.slice(start.length)

const anything = () =>
  new Proxy(function () {}, {
    get: (_, key) => (key === Symbol.toPrimitive ? () => '' : anything()),
    apply: anything,
    construct: anything,
    set: () => true,
    has: () => true,
  })
for (const name of ['document', 'navigator', 'location', 'localStorage']) {
  Object.defineProperty(globalThis, name, {value: anything(), configurable: true, writable: true})
}
globalThis.window = globalThis
globalThis.matchMedia = anything
globalThis.addEventListener = () => {}
const log = console.log
console.log = () => {}
try {
  vm.runInThisContext(source)
} catch {
  // Drawing the page; everything that importing needs is there by now.
}

const content = JSON.parse(fs.readFileSync(file, 'utf8'))
const group = content.traceEvents ? globalThis.imports.trace(content) : globalThis.imports.own(content)
const profiles = group.profiles.map(p => {
  const self = {}
  p.forEachFrame(f => { self[f.name] = (self[f.name] || 0) + f.getSelfWeight() })
  return {Name: p.getName(), Unit: p.getWeightUnit(), Total: p.getTotalWeight(), Self: self}
})
log(JSON.stringify({Name: group.name, Active: group.indexToView, Profiles: profiles}))
process.exit(0)
