// @ts-check
/**
 * The contract of the articles of the RealWorld API (Conduit): what its description says about /api/articles. Only users
 * change articles: one is passed as a header, a second one, who must not change the articles of the first, as another.
 *
 *   npx todo-service verify http://localhost:3000 --contract conduit.js \
 *     --header 'Authorization: Token …' --other-header 'Authorization: Token …'
 */
import {
  choice,
  defineContract,
  expectEmpty,
  expectObject,
  expectServed,
  expectStatus,
  expectSuccess,
  expectThat,
  hasMembers,
  prerequisites,
  spec,
  uniqueText,
  withTwoUsers,
} from 'todo-item-service/verify'

/** What checks build on. */
const { observe, providing, setUp } = prerequisites('list', 'create', 'read', 'delete', 'update', 'favorite')

/** @import { Client, Response, Rule } from 'todo-item-service/verify' */
/** @typedef {{ title: string, description: string, body: string, tagList: string[] }} Members */
/** @typedef {{ createdAt?: string, author?: { username?: string }, favorited?: boolean, favoritesCount?: number }} Assigned */
/** @typedef {Members & Assigned & { slug: string }} Article */

const path = '/api/articles'
/** In alphabetical order, in which servers may return them. They stay when the articles are deleted: few are enough. */
const tagList = ['contract', 'verify']

/** @type {Rule[]} */
const rules = [
  { id: 'C1', basis: 'spec', sentence: '`GET /api/articles` → 200 `articles`, newest first, and `articlesCount`.' },
  { id: 'C2', basis: 'spec', sentence: '`POST` → 201 article with a `slug`; 422 with `errors` without a member.' },
  { id: 'C3', basis: 'spec', sentence: '`GET /api/articles/{slug}` → 200 article, for anyone; 404 without article.' },
  { id: 'C4', basis: 'spec', sentence: '`PUT` changes `title`, `description`, `body` → 200 article; 404 without one.' },
  { id: 'C5', basis: 'spec', sentence: '`DELETE` → success, the article is gone; 404 without article.' },
  { id: 'C6', basis: 'spec', sentence: '`POST`, `DELETE` of `{slug}/favorite` → 200 article, a favorite of the user.' },
  {
    id: 'C7',
    basis: 'spec',
    sentence: 'The list takes `author`, `tag` and `limit`; `articlesCount` ignores the limit.',
  },
  { id: 'C8', basis: 'spec', sentence: 'A request without credentials that would change something → 401.' },
  { id: 'C9', basis: 'spec', sentence: 'A `PUT` or `DELETE` of an article of another user → 403.' },
  { id: 'C10', basis: 'choice', sentence: '`DELETE` → 204 without a body. Earlier editions: 200.' },
  { id: 'C11', basis: 'choice', sentence: 'A new title gives the article a new slug.' },
]

/** @param {string} slug */
const articlePath = (slug) => `${path}/${encodeURIComponent(slug)}`

/** @param {Partial<Members>} members @returns {Members} */
const newArticle = (members = {}) => ({
  title: uniqueText(),
  description: uniqueText(),
  body: uniqueText(),
  tagList,
  ...members,
})

/** Undefined removes a header. @param {Client} client */
const nobody = ({ credentials = {} }) => Object.fromEntries(Object.keys(credentials).map((name) => [name, undefined]))

/**
 * A request of the user, unless other headers say whose it is.
 * @param {Client} client @param {string} method @param {string} at @param {Partial<Members>} [members]
 */
const send = (client, method, at, members, headers = client.credentials) =>
  client.send(method, at, members && { article: members }, headers)

/** @param {unknown} value @returns {value is Article} */
const isArticle = (value) =>
  typeof value === 'object' && value !== null && 'slug' in value && typeof value.slug === 'string' && value.slug !== ''

/** The one article of a response, or those of a list. @param {Response} response */
function articlesIn(response) {
  const { article, articles = [] } = expectObject(response)
  return [article, articles].flat().filter(isArticle)
}

/** @param {Response} response */
function expectUser(response) {
  const expected = "credentials that the server accepts, as in --header 'Authorization: Token …'"
  expectThat(response.status !== 401, expected, response)
}

/** @param {Response} response @param {object} members */
function expectArticle(response, members) {
  expectSuccess(response)
  const [article] = articlesIn(response)
  expectThat(
    article !== undefined && hasMembers(article, members),
    `an article with a slug and ${JSON.stringify(members)}`,
    response,
  )
  return article
}

/** @param {Response} response */
function expectArticles(response) {
  expectStatus(response, 200)
  const { articles, articlesCount } = expectObject(response)
  expectThat(Array.isArray(articles) && articles.every(isArticle), 'articles, an array of articles', response)
  expectThat(Number.isInteger(articlesCount), 'articlesCount, an integer', response)
  return { articles, articlesCount: Number(articlesCount) }
}

/** @param {Article} article */
const timeOf = ({ createdAt }) => Date.parse(`${createdAt}`)

/** An article that PUT gave another slug is removed by the check itself. @param {Client} client @param {string} slug */
const remove = (client, slug) => send(client, 'DELETE', articlePath(slug))

/** A step towards what a check states: if it fails, C2 is to blame. @param {Client} client @param {Partial<Members>} members */
async function create(client, members = {}) {
  const sent = newArticle(members)
  const response = await send(client, 'POST', path, sent)
  return { slug: setUp('create', () => expectArticle(response, sent)).slug, ...sent }
}

/** The effect of a check, as GET shows it. @param {Client} client @param {Partial<Article> & { slug: string }} article */
async function expectStored(client, article, headers = client.credentials) {
  const response = await send(client, 'GET', articlePath(article.slug), undefined, headers)
  observe('read', () => {
    expectStatus(response, 200)
    expectArticle(response, article)
  })
}

/** @param {Client} client @param {Record<string, string>} query */
async function list(client, query = {}) {
  const response = await send(client, 'GET', `${path}?${new URLSearchParams(query)}`)
  return observe('list', () => expectArticles(response))
}

/** @param {readonly { slug: string }[]} articles @param {{ slug: string }} article */
const includes = (articles, { slug }) => articles.some((listed) => listed.slug === slug)

// In the order in which they run: what others build on comes first. Other clients may be at work, so a check judges
// only articles that it has created, which are on the first page of a list, never the length of the list.
const checks = [
  providing(
    'list',
    spec('C1', 'GET returns 200 with articles and articlesCount', async (client) => {
      const response = await send(client, 'GET', path)
      expectServed(response)
      expectArticles(response)
    }),
  ),
  providing(
    'create',
    spec('C2', 'POST returns the article with its slug and its author', async (client) => {
      const sent = newArticle()
      const response = await send(client, 'POST', path, sent)
      expectServed(response)
      expectUser(response)
      const { author } = expectArticle(response, sent)
      expectThat(typeof author?.username === 'string', 'an article with the username of its author', response)
    }),
  ),
  providing(
    'read',
    spec('C3', 'GET returns the article with the slug, with credentials and without', async (client) => {
      const article = await create(client)
      await expectStored(client, article)
      await expectStored(client, article, nobody(client))
    }),
  ),
  providing(
    'delete',
    spec('C5', 'DELETE removes the article, and no other', async (client) => {
      const [article, other] = [await create(client), await create(client)]
      expectSuccess(await remove(client, article.slug))
      expectThat(!includes((await list(client)).articles, article), 'a list without the deleted article')
      await expectStored(client, other)
    }),
  ),
  providing(
    'update',
    spec('C4', 'PUT changes the members that it names, and no others', async (client) => {
      let { slug, ...members } = await create(client)
      for (const change of [{ description: uniqueText() }, { body: uniqueText() }, { title: uniqueText() }]) {
        const response = await send(client, 'PUT', articlePath(slug), change)
        expectStatus(response, 200)
        members = { ...members, ...change }
        slug = expectArticle(response, members).slug
        await expectStored(client, { slug, ...members })
      }
      await remove(client, slug)
    }),
  ),
  providing(
    'favorite',
    spec('C6', 'POST makes the article a favorite, DELETE takes it back', async (client) => {
      const { slug } = await create(client)
      for (const [method, state] of Object.entries({
        POST: { favorited: true, favoritesCount: 1 },
        DELETE: { favorited: false, favoritesCount: 0 },
      })) {
        const response = await send(client, method, `${articlePath(slug)}/favorite`)
        expectStatus(response, 200)
        expectArticle(response, { slug, ...state })
        await expectStored(client, { slug, ...state })
      }
    }),
  ),
  withTwoUsers(
    spec('C6', 'the favorite of a user is none of another user, but counts', async (client) => {
      const { slug } = await create(client)
      const response = await send(client, 'POST', `${articlePath(slug)}/favorite`)
      setUp('favorite', () => expectSuccess(response))
      await expectStored(client, { slug, favorited: false, favoritesCount: 1 }, client.otherCredentials)
    }),
  ),
  spec('C1', 'GET lists the articles that were created, newest first', async (client) => {
    const created = [await create(client), await create(client), await create(client)]
    const { articles } = await list(client)
    for (const article of created) expectThat(includes(articles, article), `a list with the article ${article.slug}`)
    const times = articles.filter((article) => includes(created, article)).map(timeOf)
    expectThat(
      times.every((time, index) => index === 0 || time <= Number(times[index - 1])),
      'the newest article first, by createdAt',
    )
  }),
  spec('C2', 'POST returns 201', async (client) => {
    const sent = newArticle()
    const response = await send(client, 'POST', path, sent)
    setUp('create', () => expectArticle(response, sent))
    expectStatus(response, 201)
  }),
  spec('C2', 'POST without title, description or body returns 422 with errors', async (client) => {
    for (const name of ['title', 'description', 'body']) {
      const response = await send(client, 'POST', path, { ...newArticle(), [name]: undefined })
      setUp('create', () => expectUser(response))
      expectStatus(response, 422)
      const { errors } = expectObject(response)
      expectThat(typeof errors === 'object' && errors !== null, 'errors, an object', response)
    }
  }),
  ...Object.entries({ C3: 'GET', C4: 'PUT', C5: 'DELETE' }).map(([rule, method]) =>
    spec(rule, `${method} returns 404 when no article has the slug`, async (client) => {
      const change = method === 'PUT' ? { body: uniqueText() } : undefined
      const response = await send(client, method, articlePath(uniqueText()), change)
      setUp('create', () => expectUser(response))
      expectStatus(response, 404)
    }),
  ),
  spec('C7', 'GET with limit lists no more articles, and counts them all', async (client) => {
    for (let created = 0; created < 2; created++) await create(client)
    const { articles, articlesCount } = await list(client, { limit: '1' })
    expectThat(articles.length === 1, 'one article')
    expectThat(articlesCount >= 2, 'an articlesCount of at least 2')
  }),
  spec('C7', 'GET with author lists the articles of the author, and no others', async (client) => {
    const sent = newArticle()
    const response = await send(client, 'POST', path, sent)
    const { slug, author } = setUp('create', () => expectArticle(response, sent))
    const { articles } = await list(client, { author: `${author?.username}` })
    expectThat(includes(articles, { slug }), `a list with the article ${slug}`)
    // There may be an error, as no user has this name.
    const others = await send(client, 'GET', `${path}?author=${uniqueText()}`)
    expectThat(!others.text.includes(slug), 'no article of another author', others)
  }),
  spec('C7', 'GET with tag lists the articles with the tag, and no others', async (client) => {
    const [tagged, other] = [await create(client), await create(client, { tagList: [] })]
    const { articles } = await list(client, { tag: `${tagged.tagList[0]}` })
    expectThat(includes(articles, tagged), `a list with the article ${tagged.slug}, which has the tag`)
    expectThat(!includes(articles, other), `a list without the article ${other.slug}, which has no tag`)
  }),
  spec('C8', 'POST, PUT and DELETE without credentials return 401, and change nothing', async (client) => {
    const article = await create(client)
    const [at, change, headers] = [articlePath(article.slug), { body: uniqueText() }, nobody(client)]
    expectStatus(await send(client, 'POST', path, newArticle(), headers), 401)
    expectStatus(await send(client, 'POST', `${at}/favorite`, undefined, headers), 401)
    expectStatus(await send(client, 'PUT', at, change, headers), 401)
    expectStatus(await send(client, 'DELETE', at, undefined, headers), 401)
    await expectStored(client, article)
  }),
  withTwoUsers(
    spec('C9', 'PUT and DELETE of the article of another user return 403, and change nothing', async (client) => {
      const article = await create(client)
      const [at, change, headers] = [articlePath(article.slug), { body: uniqueText() }, client.otherCredentials]
      expectStatus(await send(client, 'PUT', at, change, headers), 403)
      expectStatus(await send(client, 'DELETE', at, undefined, headers), 403)
      await expectStored(client, article)
    }),
  ),
  choice('C10', 'DELETE returns 204 without a body', async (client) => {
    const { slug } = await create(client)
    const response = await remove(client, slug)
    setUp('delete', () => expectSuccess(response))
    expectEmpty(response, 204)
  }),
  choice('C11', 'PUT of a title changes the slug', async (client) => {
    const [article, change] = [await create(client), { title: uniqueText() }]
    const response = await send(client, 'PUT', articlePath(article.slug), change)
    const { slug } = setUp('update', () => expectArticle(response, change))
    await remove(client, slug)
    expectThat(slug !== article.slug, 'another slug than before', response)
  }),
]

export default defineContract({
  name: 'Conduit',
  rules,
  checks,
  items: {
    path,
    pathOf: (item) => (isArticle(item) ? articlePath(item.slug) : undefined),
    list: articlesIn,
    headers: ({ credentials }) => credentials ?? {},
  },
})
