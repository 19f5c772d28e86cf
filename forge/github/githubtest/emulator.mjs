// Starts the GitHub of npm's package "emulate" (its dist directory is the first
// argument) and adds what it lacks and GitHub has. Each addition says so. Prints
// its URL as a line of JSON; ends when standard input does.
import { createHash, randomUUID } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { Server } from 'node:http'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { acts, manifest } from './manifest.mjs'
import { places } from './places.mjs'
import { acts as settings, rules } from './rules.mjs'

const dist = process.argv[2]
const chunk = readdirSync(dist).find((f) => /^dist-.*\.js$/.test(f) && readFileSync(join(dist, f), 'utf8').includes('createAppKeyResolver,'))
const load = (f) => import(pathToFileURL(join(dist, f)).href)
const { githubPlugin, getGitHubStore, seedFromConfig } = await load(chunk)
const { createEmulator } = await load('api.js')

// Node closes an idle connection after five seconds. A request that is sent at that moment is
// lost, and its client can't know whether it was done. So connections stay open longer than
// clients keep them, 90 seconds; what ends them in tests is forgetest's liar.
const listen = Server.prototype.listen
Server.prototype.listen = function (...where) {
  this.keepAliveTimeout = 120_000
  return listen.apply(this, where)
}

const reactions = ['+1', '-1', 'laugh', 'confused', 'heart', 'hooray', 'rocket', 'eyes']

// Delivery ids are times there, and GUIDs at GitHub, which also keeps a list of
// what became of each delivery.
const deliveries = []
const fetchAsIs = globalThis.fetch
globalThis.fetch = async (url, init) => {
  if (!init?.headers?.['X-GitHub-Delivery']) return fetchAsIs(url, init)
  const d = { id: deliveries.length + 1, guid: randomUUID(), delivered_at: new Date().toISOString(), redelivery: false, duration: 0.1, status: 'failed to connect', status_code: 0, event: init.headers['X-GitHub-Event'], action: JSON.parse(init.body).action ?? null, installation_id: null, repository_id: JSON.parse(init.body).repository?.id ?? null, url }
  deliveries.push(d)
  const answer = await fetchAsIs(manifest.route(url), { ...init, headers: { ...init.headers, 'X-GitHub-Delivery': d.guid } })
  Object.assign(d, { status: answer.ok ? 'OK' : 'Invalid HTTP Response', status_code: answer.status })
  return answer
}

const json = (data, status = 200) => new Response(data === null ? null : JSON.stringify(data), { status, headers: { 'Content-Type': 'application/json; charset=utf-8' } })
const say = (status, message) => json({ message, documentation_url: 'https://docs.github.com/rest' }, status)
const ranks = ['none', 'pull', 'triage', 'push', 'maintain', 'admin']
const words = { none: ['none', 'none'], pull: ['read', 'read'], triage: ['read', 'triage'], push: ['write', 'write'], maintain: ['write', 'maintain'], admin: ['admin', 'admin'] }

// additions are what GitHub has and the emulator hasn't, over its own store.
class Additions {
  constructor(inner, store, webhooks, baseUrl, tokens) {
    Object.assign(this, { inner, webhooks, baseUrl, tokens, gh: getGitHubStore(store), store, seedFromConfig })
    this.edits = new Map() // "repo#number" to versions of the body
    this.reactions = []
    this.statuses = []
    this.suspended = new Set() // installation ids
    this.checkApps = new Map() // check run id to App id
    this.startLines = new Map() // review comment id to first line and its side
    this.edited = new Map() // node id of a review comment to when its text was edited
  }

  repo(owner, name) { return this.gh.repos.findOneBy('full_name', `${owner}/${name}`) }
  userJson(u) { return { login: u.login, id: u.id, node_id: u.node_id, type: u.type, site_admin: false, url: `${this.baseUrl}/users/${u.login}`, html_url: `${this.baseUrl}/${u.login}` } }

  // rank is what a person may do; the emulator lets everybody write to what is public.
  rank(repo, userId) {
    if (repo.owner_id === userId) return 'admin'
    const c = this.gh.collaborators.findBy('repo_id', repo.id).find((x) => x.user_id === userId)
    return c ? c.permission : repo.private ? 'none' : 'pull'
  }

  // who asks: null for nobody, an answer for a credential that doesn't count.
  // The emulator takes an unknown token for its first user.
  who(req) {
    const [, token] = (req.headers.get('authorization') ?? '').split(' ')
    if (!token) return null
    if (token.split('.').length === 3) return { app: Number(JSON.parse(Buffer.from(token.split('.')[1], 'base64url')).iss) }
    const t = this.tokens.get(token)
    if (!t || (t.ends && t.ends <= Date.now())) return say(401, 'Bad credentials')
    if (t.installation && this.suspended.has(t.installation.installationId)) return say(403, 'This installation has been suspended')
    return t
  }

  async answer(req) {
    const url = new URL(req.url)
    const path = url.pathname.replace(/^\/api\/v3(?=\/)/, '').replace(/^\/api\/graphql$/, '/graphql')
    if (path.startsWith('/_writ/')) return this.admin(path.slice(7), await req.json())
    const asked = await manifest.answer(this, req, path)
    if (asked) return asked
    const by = this.who(req)
    if (by instanceof Response) return by
    if (!by) return say(401, 'Requires authentication')
    const text = req.method === 'GET' ? '' : await req.text()
    const body = text ? JSON.parse(text) : {}
    const own = (await manifest.installation(this, req, path, by)) ?? (await this.route(req.method, path, url.searchParams, body, by))
    const answer = own ?? (await this.pass(req, url, path, text, body, by))
    return this.finish(req, answer, path)
  }

  async route(method, path, query, body, by) {
    const settled = rules.answer(this, method, path, query, by)
    if (settled) return settled
    let m
    if ((m = path.match(/^\/user\/(\d+)$/))) { // accounts by id
      const u = this.gh.users.get(Number(m[1]))
      return u ? json(this.userJson(u)) : say(404, 'Not Found')
    }
    if (path === '/graphql') return this.graphql(body.variables ?? {}, by)
    if (path === '/app' && by.app && manifest.about(this, by.app)) return json(manifest.about(this, by.app))
    if (path === '/app/hook/deliveries' && by.app) { // what became of the deliveries, newest first
      const app = this.gh.apps.findOneBy('app_id', by.app)
      const mine = deliveries.filter((d) => d.url === app.webhook_url).reverse()
      const start = mine.findIndex((d) => d.id <= Number(query.get('cursor') ?? Infinity))
      const size = Number(query.get('per_page') ?? 30)
      const page = start < 0 ? [] : mine.slice(start, start + size)
      const answer = json(page.map(({ url, ...d }) => d))
      const next = start < 0 ? undefined : mine[start + size]
      if (next) answer.headers.set('Link', `<${this.baseUrl}${path}?per_page=${size}&cursor=${next.id}>; rel="next"`)
      return answer
    }
    if (path === '/installation/repositories') { // what a token may see
      if (!by.installation) return say(403, 'Resource not accessible')
      const seen = this.gh.repos.all().filter((r) => r.owner_id === by.installation.accountId && (by.installation.repositorySelection === 'all' || by.installation.repositoryIds.includes(r.id)))
      const repositories = []
      for (const r of seen) repositories.push(await (await this.inner(new Request(`${this.baseUrl}/repositories/${r.id}`, { headers: { Authorization: `Bearer ${by.raw ?? this.raw(by)}` } }))).json())
      return json({ total_count: repositories.length, repositories })
    }
    if ((m = path.match(/^\/app\/installations\/(\d+)\/access_tokens$/)) && this.suspended.has(Number(m[1]))) return say(403, 'This installation has been suspended')
    if (!(m = path.match(/^\/repos\/([^/]+)\/([^/]+)(\/.*)?$/))) return null
    const renamed = places.renamed(this, m[1], m[2])
    if (renamed) return new Response('', { status: method === 'GET' ? 301 : 307, headers: { Location: `${this.baseUrl}/repositories/${renamed}${m[3] ?? ''}` } })
    const repo = this.repo(m[1], m[2])
    if (!repo) return null
    const rest = m[3] ?? ''
    if (by.installation && !this.covers(by, repo) && method !== 'GET') return say(403, 'Resource not accessible by integration')
    const refused = this.refuse(method, rest, body, by, repo)
    if (refused) return refused
    if ((m = rest.match(/^\/collaborators\/(.+)\/permission$/))) { // in GitHub's words, also of who is no collaborator
      const u = this.gh.users.findOneBy('login', decodeURIComponent(m[1]))
      if (!u) return say(404, 'Not Found')
      const [permission, role_name] = words[this.rank(repo, u.id)]
      return json({ permission, role_name, user: this.userJson(u) })
    }
    if ((m = rest.match(/^\/issues\/(comments\/)?(\d+)\/reactions$/))) { // reactions
      const about = m[1] ? this.gh.comments.get(Number(m[2])) : this.gh.issues.findBy('repo_id', repo.id).find((i) => i.number === Number(m[2]))
      if (!about || about.repo_id !== repo.id) return say(404, 'Not Found')
      if (method === 'POST' && !reactions.includes(body.content)) return json({ message: 'Validation Failed', errors: [{ resource: 'Reaction', code: 'invalid', field: 'content' }] }, 422)
      const to = `${m[1] ? 'comment' : 'issue'} ${about.id}`
      const mine = this.reactions.filter((r) => r.to === to)
      if (method === 'GET') return json(mine)
      const there = mine.find((r) => r.by === by.login && r.content === body.content)
      const made = there ?? { id: this.reactions.length + 1, to, by: by.login, content: body.content, created_at: new Date().toISOString() }
      if (!there) this.reactions.push(made)
      return json(made, there ? 200 : 201)
    }
    if ((m = rest.match(/^\/statuses\/([0-9a-f]{40})$/)) && method === 'POST') { // commit statuses
      if (!this.gh.commits.findBy('repo_id', repo.id).some((c) => c.sha === m[1])) return say(422, `No commit found for SHA: ${m[1]}`)
      const made = { id: this.statuses.length + 1, repo: repo.id, sha: m[1], state: body.state, context: body.context ?? 'default', description: body.description ?? null }
      this.statuses = this.statuses.filter((s) => s.repo !== repo.id || s.sha !== made.sha || s.context !== made.context).concat(made)
      return json(made, 201)
    }
    if ((m = rest.match(/^\/commits\/([^/]+)\/statuses$/))) return json(this.statuses.filter((s) => s.repo === repo.id && s.sha === m[1]))
    if ((m = rest.match(/^\/commits\/([^/]+)\/check-runs$/)) && !this.gh.commits.findBy('repo_id', repo.id).some((c) => c.sha === m[1])) return say(422, `No commit found for SHA: ${m[1]}`)
    if (rest === '/check-runs' && !this.gh.commits.findBy('repo_id', repo.id).some((c) => c.sha === body.head_sha)) return say(422, 'No commit found for SHA')
    if (rest === '/pulls' && method === 'POST') return this.refusePull(repo, body)
    return null
  }

  raw(by) { for (const [token, t] of this.tokens) if (t === by) return token }
  covers(by, repo) { return by.installation.accountId === repo.owner_id && (by.installation.repositorySelection === 'all' || by.installation.repositoryIds.includes(repo.id)) }

  // refuse: people may do what their role says, and nobody writes to an archive.
  refuse(method, rest, body, by, repo) {
    if (method === 'GET' || by.app) return null
    if (repo.archived) return say(403, 'Repository was archived so is read-only.')
    if (by.installation) return null
    const user = this.gh.users.findOneBy('login', by.login)
    const may = ranks.indexOf(this.rank(repo, user.id))
    const no = (need) => (may < ranks.indexOf(need) ? say(403, 'Must have more rights to Repository.') : null)
    let m
    if (/^\/issues\/\d+\/labels/.test(rest) || /^\/labels/.test(rest)) return no('triage')
    if ((m = rest.match(/^\/issues\/(\d+)$/))) {
      const i = this.gh.issues.findBy('repo_id', repo.id).find((x) => x.number === Number(m[1]))
      if (i && i.user_id !== user.id) return no(body.title !== undefined || body.body !== undefined ? 'push' : 'triage')
    }
    if ((m = rest.match(/^\/issues\/comments\/(\d+)$/))) {
      const c = this.gh.comments.get(Number(m[1]))
      if (c && c.user_id !== user.id) return no('push')
    }
    if (/^\/(pulls|statuses|check-runs|git)/.test(rest)) return no('push')
    return null
  }

  // refusePull: the emulator makes branches that are missing, and several changes of one.
  refusePull(repo, body) {
    const has = (name) => this.gh.branches.findBy('repo_id', repo.id).some((b) => b.name === name)
    const invalid = (message) => json({ message: 'Validation Failed', errors: [{ resource: 'PullRequest', code: 'custom', message }] }, 422)
    if (!has(body.head)) return invalid('head is invalid')
    if (!has(body.base)) return invalid('base is invalid')
    if (this.gh.pullRequests.findBy('repo_id', repo.id).some((p) => p.head_ref === body.head && p.base_ref === body.base && p.state === 'open')) return invalid(`A pull request already exists for ${body.head}.`)
    return null
  }

  async pass(req, url, path, text, body, by) {
    const since = url.searchParams.get('since')
    // The emulator compares times as text, with and without a fraction.
    if (since) url.searchParams.set('since', since.replace(/Z$/, '.000Z'))
    const m = path.match(/^\/repos\/([^/]+)\/([^/]+)\/issues\/(\d+)$/)
    const repo = m && this.repo(m[1], m[2])
    const find = () => repo && this.gh.issues.findBy('repo_id', repo.id).find((i) => i.number === Number(m[3]))
    const before = find()
    const old = before && { title: before.title, body: before.body ?? '', created_at: before.created_at }
    const answer = await this.inner(new Request(`${this.baseUrl}${path}${url.search}`, { method: req.method, headers: req.headers, body: text || undefined }))
    if (answer.ok && old && req.method === 'PATCH') this.noteEdit(repo, find(), old, by)
    if (answer.ok && req.method === 'POST' && /\/pulls\/\d+\/comments$/.test(path) && body.start_line) this.startLines.set((await answer.clone().json()).id, [body.start_line, body.start_side ?? 'RIGHT'])
    const listed = req.method === 'GET' && answer.ok && url.searchParams.get('sort') === 'updated' && path.match(/^\/repos\/([^/]+)\/([^/]+)\/issues$/)
    if (listed) return this.withPulls(req, url.searchParams, this.repo(listed[1], listed[2]), answer)
    if (answer.ok && req.method === 'PATCH' && /\/pulls\/comments\/\d+$/.test(path)) this.edited.set((await answer.clone().json()).node_id, new Date().toISOString())
    if (answer.ok && by.installation && /\/check-runs$/.test(path) && req.method === 'POST') this.checkApps.set((await answer.clone().json()).id, by.installation.appId)
    return answer
  }

  // withPulls puts pull requests among the issues, as GitHub does, by their updates: those up
  // to the last issue of a full page.
  async withPulls(req, query, repo, answer) {
    const list = await answer.json()
    if (Number(query.get('page') ?? 1) > 1) return new Response(JSON.stringify(list), { headers: answer.headers })
    const last = list.length < Number(query.get('per_page') ?? 30) ? '9' : list.at(-1).updated_at
    for (const row of this.gh.issues.findBy('repo_id', repo.id).filter((i) => i.is_pull_request && i.updated_at >= (query.get('since') ?? '') && i.updated_at <= last)) {
      const pull = await (await this.inner(new Request(`${this.baseUrl}/repos/${repo.full_name}/pulls/${row.number}`, { headers: req.headers }))).json()
      list.push({ ...pull, id: row.id, created_at: row.created_at, updated_at: row.updated_at, pull_request: { url: pull.url } })
    }
    list.sort((a, b) => (a.updated_at === b.updated_at ? a.number - b.number : a.updated_at < b.updated_at ? -1 : 1))
    return new Response(JSON.stringify(list), { headers: answer.headers })
  }

  // noteEdit keeps what GitHub's edit history and its renamed events show.
  noteEdit(repo, issue, old, by) {
    const login = by.installation ? this.gh.apps.findOneBy('app_id', by.installation.appId).slug + '[bot]' : by.login
    const user = this.gh.users.findOneBy('login', login)
    if (issue.title !== old.title) {
      const e = this.gh.issueEvents.insert({ node_id: '', repo_id: repo.id, issue_number: issue.number, event: 'renamed', actor_id: user.id, commit_id: null, commit_url: null, label_name: null, assignee_id: null, milestone_title: null, rename: { from: old.title, to: issue.title } })
      this.gh.issueEvents.update(e.id, { node_id: `E${e.id}` })
    }
    if ((issue.body ?? '') === old.body) return
    const key = `${repo.id}#${issue.number}`
    if (!this.edits.has(key)) this.edits.set(key, [{ editedAt: old.created_at, diff: old.body, deletedAt: null, editor: null }])
    this.edits.get(key).push({ editedAt: new Date().toISOString(), diff: issue.body ?? '', deletedAt: null, editor: { __typename: user.type, login, databaseId: user.id } })
  }

  // graphql answers the adapter's two questions.
  graphql(v, by) {
    if (v.ids) return json({ data: { nodes: v.ids.map((id) => ({ id, lastEditedAt: this.edited.get(id) ?? null })) } })
    const repo = this.repo(v.owner, v.name)
    const issue = repo && this.gh.issues.findBy('repo_id', repo.id).find((i) => i.number === v.number && !i.is_pull_request)
    if (!issue || (by.installation && !this.covers(by, repo))) return json({ data: { repository: null }, errors: [{ type: 'NOT_FOUND', message: 'Could not resolve' }] })
    const all = this.edits.get(`${repo.id}#${issue.number}`) ?? []
    const end = v.before ? Number(v.before) : all.length
    const start = Math.max(0, end - 100)
    return json({ data: { repository: { databaseId: repo.id, issue: {
      title: issue.title, body: issue.body ?? '', lastEditedAt: all.at(-1)?.editedAt ?? null, includesCreatedEdit: all.length > 0,
      userContentEdits: { pageInfo: { hasPreviousPage: start > 0, startCursor: String(start) }, nodes: all.slice(start, end) },
    } } } })
  }

  // finish: times of whole seconds, sparse event ids, no events that GitHub
  // doesn't list, and an ETag with its 304.
  async finish(req, answer, path) {
    if (!answer.ok) return answer
    let text = (await answer.text()).replace(/(T\d\d:\d\d:\d\d)\.\d+Z"/g, '$1Z"')
    if (/\/issues\/\d+\/events$/.test(path)) text = JSON.stringify(JSON.parse(text).filter((e) => e.event !== 'opened' && e.event !== 'edited'))
    if (/\/check-runs$/.test(path) && req.method === 'GET') {
      const app = Number(new URL(req.url).searchParams.get('app_id'))
      const list = JSON.parse(text)
      if (app) list.check_runs = list.check_runs.filter((r) => this.checkApps.get(r.id) === app)
      text = JSON.stringify({ ...list, total_count: list.check_runs.length })
    }
    // Where a comment stood when it was made, which GitHub tells beside where it stands now.
    if (/\/pulls\/\d+\/comments$/.test(path) && req.method === 'GET') {
      text = JSON.stringify(JSON.parse(text).map((c) => {
        const [start, side] = this.startLines.get(c.id) ?? [null, null]
        return { ...c, original_line: c.line, start_line: start, original_start_line: start, start_side: side }
      }))
    }
    const headers = new Headers(answer.headers)
    headers.delete('content-length')
    if (req.method !== 'GET') return new Response(text || null, { status: answer.status, headers })
    const etag = `W/"${createHash('sha256').update(text).digest('hex')}"`
    headers.set('ETag', etag)
    if (req.headers.get('if-none-match') === etag) return new Response(null, { status: 304, headers })
    return new Response(text, { status: answer.status, headers })
  }

  admin(what, body) {
    try { return json((places[what] ?? acts[what] ?? settings[what])(this, body) ?? {}) } catch (e) { return say(500, e.stack) }
  }
}

const register = githubPlugin.register
githubPlugin.register = (app, store, webhooks, baseUrl, tokens) => {
  const additions = new Additions(app.fetch, store, webhooks, baseUrl, tokens)
  app.fetch = (req) => additions.answer(req)
  return register.call(githubPlugin, app, store, webhooks, baseUrl, tokens)
}
const emulator = await createEmulator({ service: 'github', port: 0, seed: { tokens: {}, github: {} } })
console.log(JSON.stringify({ url: emulator.url }))
process.stdin.on('end', () => process.exit(0)).resume()
