// Three of the packages work, each with those that it needs.
const app = require('express')();
const { Linter } = require('eslint');
const Mocha = require('mocha');

app.get('/', (_, response) => response.send('ok'));
const found = new Linter().verify('var x = 1', { rules: { 'no-var': 'error' } });
if (found.length !== 1 || !new Mocha()) process.exit(1);
console.log('all is well');
