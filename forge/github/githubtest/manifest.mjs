// The pages of GitHub on which a person makes an App from a manifest and
// installs it, and what a program asks afterwards. The rules of a manifest are
// those that GitHub documents and those it is known to apply; what it ignores,
// a member that it doesn't know, is refused here, so that it is seen.
import { createHash, generateKeyPairSync, randomBytes } from 'node:crypto'
import { ensureUser } from './places.mjs'

const members = ['name', 'url', 'hook_attributes', 'redirect_url', 'callback_urls', 'setup_url', 'description', 'public', 'default_events', 'default_permissions', 'request_oauth_on_install', 'setup_on_update']
const levels = { metadata: ['read'], issues: ['read', 'write'], pull_requests: ['read', 'write'], contents: ['read', 'write'], checks: ['read', 'write'], statuses: ['read', 'write'], workflows: ['write'], administration: ['read', 'write'] }
// events and the permission that lets an App be told of them
const events = { issues: 'issues', issue_comment: 'issues', push: 'contents', pull_request: 'pull_requests', pull_request_review: 'pull_requests', pull_request_review_comment: 'pull_requests', check_run: 'checks', check_suite: 'checks', repository: 'metadata', status: 'statuses', label: 'metadata' }
const longestName = 34
const hour = 3600e3

const sessions = new Map() // cookie to login
const drafts = new Map() // what is being made, by an id in the form
const codes = new Map() // code to {app, at}
const webs = new Map() // App id to where its pages are
const owners = new Map() // App id to the account that it belongs to
const routes = new Map() // public origin to where a test has it

const escape = (s) => String(s).replace(/[&<>"]/g, (c) => `&#${c.charCodeAt(0)};`)
const page = (title, body, status = 200) => new Response(`<!doctype html><html lang="en"><meta charset="utf-8"><title>${escape(title)}</title><main><h1>${escape(title)}</h1>${body}</main></html>`, { status, headers: { 'Content-Type': 'text/html; charset=utf-8' } })
const isPublic = (s) => {
  let u
  try { u = new URL(s) } catch { return false }
  return /^https?:$/.test(u.protocol) && !/^(localhost|127\.|10\.|192\.168\.|\[?::1)/.test(u.hostname)
}

// faults lists what is wrong with a manifest, in GitHub's words where known.
function faults(m) {
  const bad = []
  if (!m || typeof m !== 'object' || Array.isArray(m)) return ['The configuration does not appear to be a valid GitHub App manifest.']
  for (const k of Object.keys(m)) if (!members.includes(k)) bad.push(`"${k}" is not a member of a manifest.`)
  if (!m.url) bad.push('"url" wasn\'t supplied.')
  if (m.hook_attributes && !m.hook_attributes.url) bad.push('"url" wasn\'t supplied.')
  if (m.hook_attributes?.url && !isPublic(m.hook_attributes.url)) bad.push("Hook url is not supported because it isn't reachable over the public Internet")
  if (!m.redirect_url) bad.push('"redirect_url" wasn\'t supplied.')
  if (m.public !== undefined && typeof m.public !== 'boolean') bad.push('"public" is not a boolean.')
  const permissions = m.default_permissions ?? {}
  for (const [k, v] of Object.entries(permissions)) if (!levels[k]?.includes(v)) bad.push(`Default permission records resource is not included in the list: ${k}: ${v}`)
  for (const e of m.default_events ?? []) {
    if (!events[e]) bad.push(`Default events unsupported: ${e}`)
    else if (!permissions[events[e]]) bad.push(`Default events are not supported by permissions: ${e}`)
  }
  if ((m.default_events ?? []).length > 0 && !m.hook_attributes) bad.push('Hook url cannot be blank')
  return bad
}

const slugOf = (name) => name.toLowerCase().replace(/[^a-z0-9]+/g, '-').replace(/^-|-$/g, '')

function nameFault(a, name) {
  if (!name) return 'Name can\'t be blank'
  if (name.length > longestName) return `Name is too long (maximum is ${longestName} characters)`
  if (a.gh.apps.findOneBy('slug', slugOf(name)) || a.gh.users.findOneBy('login', slugOf(name))) return 'Name is already taken'
  return ''
}

function askName(draft, id, fault, name) {
  return page(`Create GitHub App for @${draft.owner}`, `${fault ? `<p id="fault" role="alert">${escape(fault)}</p>` : ''}
<form method="post" action="/settings/apps/manifest"><input type="hidden" name="draft" value="${id}">
<label for="name">GitHub App name</label> <input id="name" name="name" value="${escape(name)}">
<button id="create">Create GitHub App for @${escape(draft.owner)}</button></form>`)
}

// make makes the App that a person has agreed to.
function make(a, draft, name, web) {
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048, privateKeyEncoding: { type: 'pkcs1', format: 'pem' }, publicKeyEncoding: { type: 'spki', format: 'pem' } })
  const m = draft.manifest
  const id = 900000 + a.gh.apps.all().length
  const slug = slugOf(name)
  a.seedFromConfig(a.store, a.baseUrl, { apps: [{
    app_id: id, slug, name, private_key: privateKey, permissions: m.default_permissions ?? {}, events: m.default_events ?? [],
    webhook_url: m.hook_attributes?.active === false ? null : m.hook_attributes?.url ?? null, webhook_secret: m.hook_attributes ? randomBytes(20).toString('hex') : null, description: m.description ?? null,
  }] }, a.webhooks)
  webs.set(id, web)
  owners.set(id, draft.owner)
  return a.gh.apps.findOneBy('slug', slug)
}

function about(a, app) {
  const web = webs.get(app.app_id)
  return { id: app.app_id, slug: app.slug, node_id: `A${app.app_id}`, owner: null, name: app.name, description: app.description, external_url: web, html_url: `${web}/github-apps/${app.slug}`, permissions: app.permissions, events: app.events, created_at: app.created_at, updated_at: app.updated_at }
}

export const manifest = {
  // route lets a test stand for the name service and the proxy with TLS.
  route(url) {
    const u = new URL(url)
    const to = routes.get(u.origin)
    return to ? to + u.pathname + u.search : url
  },

  // answer is what a browser or a program without credentials gets; null for
  // what isn't a matter of this file.
  async answer(a, req, path) {
    let m
    if (req.method === 'POST' && (m = path.match(/^\/app-manifests\/([^/]+)\/conversions$/))) return manifest.convert(a, m[1])
    if (req.method === 'GET' && !req.headers.get('authorization') && (m = path.match(/^\/users\/([^/]+)$/))) return manifest.stranger(a, m[1])
    const web = req.headers.get('x-writ-web') // where the test serves these pages
    if (!web) return null
    const login = sessions.get((req.headers.get('cookie') ?? '').match(/user_session=([0-9a-f]+)/)?.[1])
    const form = req.method === 'POST' ? new URLSearchParams(await req.text()) : null
    if (path === '/login') return manifest.login(a, form)
    if (!login) return page('Sign in to GitHub', '<p id="signin">Sign in first.</p>', 403)
    if ((m = path.match(/^(?:\/organizations\/([^/]+))?\/settings\/apps\/new$/)) && form) return manifest.begin(m[1] ?? login, form, new URL(req.url).searchParams)
    if (path === '/settings/apps/manifest' && form) return manifest.create(a, form, web)
    if ((m = path.match(/^\/github-apps\/([^/]+)\/installations\/new$/))) return manifest.install(a, m[1], login, form)
    return null
  },

  // stranger is what somebody without credentials sees of an account.
  stranger(a, login) {
    const user = a.gh.users.findOneBy('login', login)
    const org = a.gh.orgs.findOneBy('login', login)
    const seen = user ? a.userJson(user) : org ? { login, id: org.id, type: 'Organization' } : { message: 'Not Found' }
    return new Response(JSON.stringify(seen), { status: user || org ? 200 : 404, headers: { 'Content-Type': 'application/json; charset=utf-8' } })
  },

  login(a, form) {
    const user = form && a.gh.users.findOneBy('login', form.get('login'))
    if (!user) return page('Sign in to GitHub', '<form method="post"><label for="login">Username</label> <input id="login" name="login"><button id="sign-in">Sign in</button></form>')
    const cookie = randomBytes(20).toString('hex')
    sessions.set(cookie, user.login)
    const done = page('Dashboard', `<p id="dashboard">${escape(user.login)}</p>`)
    done.headers.append('Set-Cookie', `user_session=${cookie}; Path=/; HttpOnly`)
    return done
  },

  begin(owner, form, query) {
    let parsed
    try { parsed = JSON.parse(form.get('manifest')) } catch { parsed = null }
    const bad = faults(parsed)
    if (bad.length) return page('Invalid GitHub App configuration', `<p id="fault" role="alert">${bad.map(escape).join('<br>')}</p>`, 422)
    const id = createHash('sha256').update(randomBytes(20)).digest('hex')
    drafts.set(id, { owner, manifest: parsed, state: query.get('state') ?? form.get('state') ?? '' })
    return askName(drafts.get(id), id, '', parsed.name ?? '')
  },

  create(a, form, web) {
    const id = form.get('draft')
    const draft = drafts.get(id)
    if (!draft) return page('Not found', '', 404)
    const name = form.get('name').trim()
    const fault = nameFault(a, name)
    if (fault) return askName(draft, id, fault, name)
    drafts.delete(id)
    const code = randomBytes(20).toString('hex')
    codes.set(code, { app: make(a, draft, name, web), at: Date.now() })
    const to = new URL(draft.manifest.redirect_url)
    to.searchParams.set('code', code)
    to.searchParams.set('state', draft.state)
    return new Response(null, { status: 302, headers: { Location: to.href } })
  },

  // convert: a code counts once, and for an hour.
  convert(a, code) {
    const found = codes.get(code)
    codes.delete(code)
    if (!found || Date.now() - found.at > hour) return new Response(JSON.stringify({ message: 'Not Found', documentation_url: 'https://docs.github.com/rest' }), { status: 404, headers: { 'Content-Type': 'application/json' } })
    const { app } = found
    return new Response(JSON.stringify({ ...about(a, app), client_id: `Iv1.${app.app_id}`, client_secret: randomBytes(20).toString('hex'), webhook_secret: app.webhook_secret, pem: app.private_key }), { status: 201, headers: { 'Content-Type': 'application/json; charset=utf-8' } })
  },

  install(a, slug, login, form) {
    const app = a.gh.apps.findOneBy('slug', slug)
    const user = a.gh.users.findOneBy('login', login)
    // One that isn't public is installed by its own account alone.
    if (!app || owners.get(app.app_id) !== login) return page('Not found', '', 404)
    const own = a.gh.repos.all().filter((r) => r.owner_id === user.id)
    if (!form) {
      const rows = own.map((r) => `<label><input type="checkbox" name="repository" value="${escape(r.full_name)}" id="repository-${r.id}"> ${escape(r.full_name)}</label><br>`).join('')
      return page(`Install ${app.name}`, `<form method="post">${rows}<button id="install">Install</button></form>`)
    }
    const permissions = { ...app.permissions }
    ensureUser(a, `${slug}[bot]`, 'Bot', slug)
    const repos = form.getAll('repository').map((n) => a.repo(...n.split('/'))).filter((r) => r && r.owner_id === user.id)
    if (!repos.length) return page('Install', '<p id="fault">Select a repository.</p>', 422)
    const there = a.gh.appInstallations.all().find((i) => i.app_id === app.app_id && i.account_id === user.id)
    if (there) a.gh.appInstallations.update(there.id, { repository_ids: repos.map((r) => r.id) })
    else a.gh.appInstallations.insert({ installation_id: 800000 + a.gh.appInstallations.all().length, app_id: app.app_id, account_type: 'User', account_id: user.id, account_login: login, repository_selection: 'selected', repository_ids: repos.map((r) => r.id), permissions, events: app.events, suspended_at: null })
    return page('Installed', `<p id="installed">${escape(app.name)} is installed.</p>`)
  },

  // installation is that of the App which asks; the emulator answers with any.
  async installation(a, req, path, by) {
    const m = by.app && path.match(/^\/repos\/([^/]+)\/([^/]+)\/installation$/)
    const repo = m && a.repo(m[1], m[2])
    if (!repo) return null
    const found = a.gh.appInstallations.all().find((i) => i.app_id === by.app && a.covers({ installation: { accountId: i.account_id, repositorySelection: i.repository_selection, repositoryIds: i.repository_ids } }, repo))
    if (!found) return new Response(JSON.stringify({ message: 'Not Found', documentation_url: 'https://docs.github.com/rest' }), { status: 404, headers: { 'Content-Type': 'application/json' } })
    return a.inner(new Request(`${a.baseUrl}/app/installations/${found.installation_id}`, { headers: req.headers }))
  },

  // about gives an App that was made here the address of its page.
  about(a, by) {
    const app = a.gh.apps.findOneBy('app_id', by)
    return app && webs.has(by) ? about(a, app) : null
  },
}

// acts are what a test does from outside.
export const acts = {
  route(a, b) { routes.set(new URL(b.from).origin, b.to) },
  // age makes every code that is out so much older, in seconds.
  age(a, b) { for (const c of codes.values()) c.at -= b.seconds * 1000 },
  // hear sets what an App is told of, there and where it is installed.
  hear(a, b) {
    a.gh.apps.update(a.gh.apps.findOneBy('app_id', b.app).id, { events: b.events })
    for (const i of a.gh.appInstallations.all()) if (i.app_id === b.app) a.gh.appInstallations.update(i.id, { events: b.events })
  },
  org(a, b) { a.seedFromConfig(a.store, a.baseUrl, { orgs: [{ login: b.login }] }, a.webhooks) },
  made() { return { apps: webs.size } },
}
