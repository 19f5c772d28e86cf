// What the settings of a repository and an App say: rulesets, issues switched
// off, where the App's webhooks go. The shapes are those of GitHub's description.
const sets = [] // rulesets
const free = new Set() // private repositories of a plan without rulesets
const configs = new Map() // App id to what its webhook is like, beside its URL

const json = (data, status = 200) => new Response(JSON.stringify(data), { status, headers: { 'Content-Type': 'application/json; charset=utf-8' } })
const say = (status, message) => json({ message, documentation_url: 'https://docs.github.com/rest' }, status)

// covers: * stands for any text without a slash, ** for any text.
const covers = (pattern, branch) => new RegExp(`^${pattern.split('**').map((p) => p.split('*').map((q) => q.replace(/[.+?^${}()|[\]\\]/g, '\\$&')).join('[^/]*')).join('.*')}$`).test(branch)

export const rules = {
  // answer is null for what isn't a matter of this file.
  answer(a, method, path, query, by) {
    if (method !== 'GET') return null
    if (path === '/app/hook/config') {
      if (!by.app) return say(401, 'A JSON web token could not be decoded')
      const app = a.gh.apps.findOneBy('app_id', by.app)
      if (configs.get(by.app)?.none) return say(404, 'Not Found')
      return json({ content_type: 'json', insecure_ssl: '0', secret: '********', ...configs.get(by.app), url: app.webhook_url ?? '' })
    }
    const m = path.match(/^\/repos\/([^/]+)\/([^/]+)(\/.*)$/)
    const repo = m && a.repo(m[1], m[2])
    if (!repo || (by.installation && !a.covers(by, repo))) return null
    if (m[3] === '/issues' && repo.has_issues === false) return say(410, 'Issues are disabled for this repo')
    if (free.has(repo.id) && /^\/(rules\/branches|rulesets)\//.test(m[3])) return say(403, 'Upgrade to GitHub Pro or make this repository public to enable this feature.')
    let n
    if ((n = m[3].match(/^\/rules\/branches\/([^/]+)$/))) {
      const branch = decodeURIComponent(n[1])
      const all = sets.filter((s) => s.repo === repo.id && covers(s.branch, branch)).flatMap((s) => s.types.map((type) => ({ type, ...(s.parameters && { parameters: s.parameters }), ruleset_source_type: 'Repository', ruleset_source: repo.full_name, ruleset_id: s.id })))
      const size = Number(query.get('per_page') ?? 30)
      const page = Number(query.get('page') ?? 1)
      const answer = json(all.slice((page - 1) * size, page * size))
      if (all.length > page * size) answer.headers.set('Link', `<${a.baseUrl}${path}?per_page=${size}&page=${page + 1}>; rel="next"`)
      return answer
    }
    if ((n = m[3].match(/^\/rulesets\/(\d+)$/))) {
      const s = sets.find((x) => x.id === Number(n[1]) && x.repo === repo.id)
      if (!s) return say(404, 'Not Found')
      return json({ id: s.id, name: `rules ${s.id}`, target: 'branch', source_type: 'Repository', source: repo.full_name, enforcement: 'active', current_user_can_bypass: s.bypass || 'never', conditions: { ref_name: { include: [`refs/heads/${s.branch}`], exclude: [] } }, rules: s.types.map((type) => ({ type })) })
    }
    return null
  },
}

// acts are what a test does from outside.
export const acts = {
  ruleset(a, b) { sets.push({ id: sets.length + 1, repo: b.repo, branch: b.branch, types: b.types, parameters: b.parameters, bypass: b.bypass }) },
  free(a, b) { free.add(b.repo) },
  hookConfig(a, b) { configs.set(b.app, b.set) },
  events(a, b) {
    const i = a.gh.appInstallations.all().find((x) => x.installation_id === b.installation)
    a.gh.appInstallations.update(i.id, { events: b.events })
  },
}
