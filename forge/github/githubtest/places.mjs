// What tests do to the emulator from outside: people, repositories, pushes,
// merges, and the troubles of an installation. Each is a POST to /_writ/NAME.

const zero = '0'.repeat(40)
const moved = new Map() // owner/name to the id of what had the name

function repoOf(a, id) {
  const repo = a.gh.repos.get(id)
  if (!repo) throw new Error(`no repository ${id}`)
  return repo
}

export function ensureUser(a, login, type, name) {
  const there = a.gh.users.findOneBy('login', login)
  if (there) return there
  const u = a.gh.users.insert({ login, node_id: '', avatar_url: '', gravatar_id: '', type, site_admin: false, name: name ?? login, company: null, blog: '', location: null, email: null, hireable: null, bio: null, twitter_username: null, public_repos: 0, public_gists: 0, followers: 0, following: 0 })
  a.gh.users.update(u.id, { node_id: `U${u.id}` })
  return a.gh.users.get(u.id)
}

export const places = {
  // place makes an owner, people with tokens, a repository and an App that is
  // installed on it alone.
  place(a, b) {
    for (const p of b.people) ensureUser(a, p.login, 'User')
    ensureUser(a, `${b.app.slug}[bot]`, 'Bot', b.app.slug)
    a.seedFromConfig(a.store, a.baseUrl, {
      repos: [{ owner: b.owner, name: b.name, auto_init: false, private: b.private ?? false }],
      apps: [{
        app_id: b.app.id, slug: b.app.slug, name: b.app.slug, private_key: b.app.key, permissions: b.app.permissions, events: ['*'],
        webhook_url: b.app.webhook_url, webhook_secret: b.app.webhook_secret,
        installations: [{ installation_id: b.app.installation, account: b.owner, repository_selection: 'selected', repositories: [`${b.owner}/${b.name}`] }],
      }],
    }, a.webhooks)
    const repo = a.repo(b.owner, b.name)
    const out = { repo: repo.id, users: {} }
    for (const p of b.people) {
      const u = a.gh.users.findOneBy('login', p.login)
      a.tokens.set(p.token, { login: u.login, id: u.id, scopes: ['repo', 'user'] })
      out.users[p.login] = u.id
      if (p.permission) places.grant(a, { repo: repo.id, user: u.id, permission: p.permission })
    }
    return out
  },

  // another makes a further repository of the same owner, without the App.
  another(a, b) {
    a.seedFromConfig(a.store, a.baseUrl, { repos: [{ owner: b.owner, name: b.name, auto_init: false }] }, a.webhooks)
    return { repo: a.repo(b.owner, b.name).id }
  },

  // many files issues, each some seconds after the one before, without a word to anybody.
  many(a, b) {
    const began = Date.now() - b.count * b.apart * 1000 - 3600e3
    const numbers = []
    for (let n = 1; n <= b.count; n++) {
      const at = new Date(began + n * b.apart * 1000).toISOString()
      const i = a.gh.issues.insert({ node_id: `I${n}`, number: n, repo_id: b.repo, title: `Issue ${n}`, body: 'text', state: 'open', state_reason: null, locked: false, active_lock_reason: null, user_id: b.user, assignee_ids: [], label_ids: [], milestone_id: null, comments: 0, closed_at: null, closed_by_id: null, is_pull_request: false })
      i.created_at = i.updated_at = a.gh.issues.get(i.id).updated_at = at
      numbers.push(n)
    }
    return { numbers }
  },

  // touch updates an issue.
  touch(a, b) {
    const i = a.gh.issues.findBy('repo_id', b.repo).find((x) => x.number === b.number)
    a.gh.issues.update(i.id, {})
  },

  grant(a, b) {
    for (const c of a.gh.collaborators.findBy('repo_id', b.repo)) if (c.user_id === b.user) a.gh.collaborators.delete(c.id)
    if (b.permission !== 'none') a.gh.collaborators.insert({ repo_id: b.repo, user_id: b.user, permission: b.permission })
  },

  // push tells what git received: the emulator keeps branches and commits of its own.
  push(a, b) {
    const repo = repoOf(a, b.repo)
    const user = a.gh.users.findOneBy('login', b.login)
    if (b.after !== zero && !a.gh.commits.findBy('repo_id', repo.id).some((c) => c.sha === b.after)) {
      const at = new Date().toISOString()
      a.gh.commits.insert({ repo_id: repo.id, sha: b.after, node_id: `C${b.after}`, message: b.message ?? '', author_name: b.login, author_email: 'a@example.com', author_date: at, committer_name: b.login, committer_email: 'a@example.com', committer_date: at, tree_sha: b.tree ?? zero, parent_shas: b.parents ?? [], user_id: user?.id ?? null })
    }
    for (const [list, key, value] of [[a.gh.refs, 'ref', b.ref], [a.gh.branches, 'name', b.ref.replace('refs/heads/', '')]]) {
      if (list === a.gh.branches && !b.ref.startsWith('refs/heads/')) continue
      const row = list.findBy('repo_id', repo.id).find((r) => r[key] === value)
      if (row && b.after === zero) list.delete(row.id)
      else if (row) list.update(row.id, { sha: b.after })
      else if (b.after !== zero) list.insert({ repo_id: repo.id, [key]: value, sha: b.after, protected: false, node_id: '' })
    }
    for (const p of a.gh.pullRequests.findBy('repo_id', repo.id)) {
      if (p.state !== 'open' || `refs/heads/${p.head_ref}` !== b.ref) continue
      if (b.after === zero) places.closed(a, repo, p, user, {})
      else a.gh.pullRequests.update(p.id, { head_sha: b.after })
    }
    if (!b.ref.startsWith('refs/heads/') && !b.ref.startsWith('refs/tags/')) return // GitHub tells nobody of hidden refs
    a.webhooks.dispatch('push', undefined, {
      ref: b.ref, before: b.before, after: b.after, repository: places.brief(a, repo), sender: a.userJson(user), commits: [],
      deleted: b.after === zero, created: b.before === zero, forced: false, pusher: { name: b.login },
    }, repo.full_name.split('/')[0], repo.name)
  },

  brief(a, repo) {
    const owner = a.gh.users.get(repo.owner_id)
    return { id: repo.id, node_id: repo.node_id, name: repo.name, full_name: repo.full_name, private: repo.private, fork: repo.fork, archived: repo.archived, default_branch: repo.default_branch, html_url: `${a.baseUrl}/${repo.full_name}`, owner: a.userJson(owner) }
  },

  // merged marks a pull request as merged by a commit that git has.
  merged(a, b) {
    const repo = repoOf(a, b.repo)
    const p = a.gh.pullRequests.findBy('repo_id', repo.id).find((x) => x.number === b.number)
    const by = a.gh.users.findOneBy('login', b.login)
    places.closed(a, repo, p, by, { merged: true, merged_at: new Date().toISOString(), merge_commit_sha: b.sha, merged_by_id: by.id })
  },

  // closed closes a pull request: merged, or because its branch is gone.
  closed(a, repo, p, by, patch) {
    const at = new Date().toISOString()
    a.gh.pullRequests.update(p.id, { state: 'closed', closed_at: at, ...patch })
    const i = a.gh.issues.findBy('repo_id', repo.id).find((x) => x.number === p.number)
    a.gh.issues.update(i.id, { state: 'closed', closed_at: at })
    a.webhooks.dispatch('pull_request', 'closed', {
      action: 'closed', number: p.number, repository: places.brief(a, repo), sender: a.userJson(by),
      pull_request: { id: p.id, number: p.number, state: 'closed', merged: Boolean(patch.merged), merge_commit_sha: patch.merge_commit_sha ?? null, title: p.title, body: p.body, user: a.userJson(a.gh.users.get(p.user_id)), head: { ref: p.head_ref, sha: p.head_sha, repo: places.brief(a, repo) }, base: { ref: p.base_ref, sha: p.base_sha, repo: places.brief(a, repo) } },
    }, repo.full_name.split('/')[0], repo.name)
  },

  // change sets what GitHub says of a repository: archived, private.
  change(a, b) { a.gh.repos.update(repoOf(a, b.repo).id, b.set) },

  // move gives a repository another name, or another owner, on whose account the
  // App is then installed for it.
  move(a, b) {
    const repo = repoOf(a, b.repo)
    const owner = ensureUser(a, b.owner, 'User')
    moved.set(repo.full_name, repo.id)
    const full_name = `${b.owner}/${b.name}`
    moved.delete(full_name)
    if (owner.id !== repo.owner_id) {
      for (const i of a.gh.appInstallations.all()) {
        if (!i.repository_ids.includes(repo.id)) continue
        const { id, created_at, updated_at, ...same } = i
        a.gh.appInstallations.update(i.id, { repository_ids: i.repository_ids.filter((r) => r !== repo.id) })
        a.gh.appInstallations.insert({ ...same, installation_id: b.installation, account_id: owner.id, account_login: owner.login, repository_ids: [repo.id] })
      }
    }
    a.gh.repos.update(repo.id, { name: b.name, full_name, owner_id: owner.id })
  },

  // branch renames the default branch: what is open goes to the new one.
  branch(a, b) {
    const repo = repoOf(a, b.repo)
    for (const [list, key, from, to] of [[a.gh.refs, 'ref', `refs/heads/${b.from}`, `refs/heads/${b.to}`], [a.gh.branches, 'name', b.from, b.to]]) {
      const row = list.findBy('repo_id', repo.id).find((r) => r[key] === from)
      if (row) list.update(row.id, { [key]: to })
    }
    for (const p of a.gh.pullRequests.findBy('repo_id', repo.id)) if (p.state === 'open' && p.base_ref === b.from) a.gh.pullRequests.update(p.id, { base_ref: b.to })
    a.gh.repos.update(repo.id, { default_branch: b.to })
  },

  // leads says what a name that a repository had leads to.
  leads(a, b) {
    const id = places.renamed(a, ...b.name.split('/'))
    return { name: id ? repoOf(a, id).full_name : '' }
  },

  renamed(a, owner, name) { return a.repo(owner, name) ? 0 : moved.get(`${owner}/${name}`) },

  // installation suspends, ends or narrows one.
  installation(a, b) {
    const i = a.gh.appInstallations.all().find((x) => x.installation_id === b.installation)
    if (b.suspended !== undefined) {
      a.suspended[b.suspended ? 'add' : 'delete'](b.installation)
      a.gh.appInstallations.update(i.id, { suspended_at: b.suspended ? new Date().toISOString() : null })
    }
    if (b.permissions) a.gh.appInstallations.update(i.id, { permissions: b.permissions })
    if (b.removed) {
      a.gh.appInstallations.delete(i.id)
      for (const [token, t] of a.tokens) if (t.installation?.installationId === b.installation) a.tokens.delete(token)
    }
    if (b.expire) for (const [token, t] of a.tokens) if (t.installation?.installationId === b.installation) t.ends = 1
  },

  // token says who a credential of git is.
  token(a, b) {
    const t = a.tokens.get(b.token)
    const repo = a.repo(b.owner, b.name)
    if (!t || (t.ends && t.ends <= Date.now()) || !repo || (t.installation && a.suspended.has(t.installation.installationId))) return { known: Boolean(t && !t.ends), found: Boolean(repo), read: false, write: false }
    if (t.installation) {
      const covers = a.covers(t, repo)
      const contents = t.installation.permissions.contents
      return { known: true, found: true, id: repo.id, login: a.gh.apps.findOneBy('app_id', t.installation.appId).slug + '[bot]', read: covers && Boolean(contents), write: covers && contents === 'write' }
    }
    const rank = a.rank(repo, a.gh.users.findOneBy('login', t.login).id)
    return { known: true, found: true, id: repo.id, login: t.login, read: rank !== 'none', write: ['push', 'maintain', 'admin'].includes(rank) }
  },
}
