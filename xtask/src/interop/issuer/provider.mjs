// An authorization server: oidc-provider with token exchange (RFC 8693), ID-JAG and the grant for JWT bearer
// assertions (RFC 7523) as custom grants. Arguments: the port, and optionally the URL of the identity provider whose
// assertions this server accepts.
import { createServer } from 'node:http';
import { SignJWT, createLocalJWKSet, createRemoteJWKSet, exportJWK, generateKeyPair, jwtVerify } from 'jose';
import { Provider, errors } from 'oidc-provider';

const [port, identityProvider] = process.argv.slice(2);
const issuer = `http://127.0.0.1:${port}`;
const EXCHANGE = 'urn:ietf:params:oauth:grant-type:token-exchange';
const JWT_BEARER = 'urn:ietf:params:oauth:grant-type:jwt-bearer';
const TYPE = 'urn:ietf:params:oauth:token-type:';

const { privateKey, publicKey } = await generateKeyPair('ES256', { extractable: true });
const key = { kid: `key ${port}`, alg: 'ES256', use: 'sig' };
const keys = createLocalJWKSet({ keys: [{ ...(await exportJWK(publicKey)), ...key }] });
const rules = (resource) => ({
  scope: 'read', audience: resource, accessTokenFormat: 'jwt', accessTokenTTL: 60, jwt: { sign: { alg: 'ES256' } },
});
const client = (id, grants, method = 'client_secret_basic') => ({
  client_id: id, client_secret: `${id} secret`, grant_types: ['client_credentials', ...grants], redirect_uris: [],
  response_types: [], id_token_signed_response_alg: 'ES256', token_endpoint_auth_method: method, scope: 'read',
});
const provider = new Provider(issuer, {
  jwks: { keys: [{ ...(await exportJWK(privateKey)), ...key }] },
  clients: [
    client('ada', []), client('bob', []), client('thruway', [EXCHANGE, JWT_BEARER]),
    client('thruway-form', [EXCHANGE, JWT_BEARER], 'client_secret_post'),
  ],
  scopes: ['read'],
  features: {
    devInteractions: { enabled: false }, clientCredentials: { enabled: true },
    resourceIndicators: { enabled: true, getResourceServerInfo: (_, resource) => rules(resource) },
  },
});

async function verified(token, keys, options) {
  try {
    return (await jwtVerify(token, keys, options)).payload;
  } catch (error) {
    throw new errors.InvalidGrant(String(error));
  }
}

async function issue(context, subject) {
  const { client, params } = context.oidc;
  const token = new provider.AccessToken({ accountId: subject, client, gty: 'custom', scope: params.scope });
  token.resourceServer = new provider.ResourceServer(params.resource, rules(params.resource));
  context.oidc.entity('AccessToken', token);
  return { access_token: await token.save(), token_type: 'Bearer', expires_in: token.expiration };
}

let exchanges = 0;
provider.registerGrantType(EXCHANGE, async (context) => {
  exchanges += 1;
  const { subject_token, subject_token_type, requested_token_type, audience, resource, scope } = context.oidc.params;
  if (subject_token_type !== `${TYPE}access_token`) throw new errors.InvalidRequest('subject_token_type');
  const { sub } = await verified(subject_token, keys, { issuer, audience: 'https://mcp.example/dev' });
  if (requested_token_type !== `${TYPE}id-jag`) {
    context.body = { ...(await issue(context, sub)), issued_token_type: `${TYPE}access_token` };
    return;
  }
  const assertion = await new SignJWT({ sub, client_id: 'thruway', resource, scope })
    .setProtectedHeader({ alg: 'ES256', kid: key.kid, typ: 'oauth-id-jag+jwt' })
    .setIssuer(issuer).setAudience(audience).setIssuedAt().setExpirationTime('1m').setJti(`${exchanges}`)
    .sign(privateKey);
  context.body = { issued_token_type: requested_token_type, access_token: assertion, token_type: 'N_A', expires_in: 60 };
}, ['subject_token', 'subject_token_type', 'requested_token_type', 'audience', 'resource', 'scope']);

provider.registerGrantType(JWT_BEARER, async (context) => {
  const { assertion, resource } = context.oidc.params;
  const remote = createRemoteJWKSet(new URL(`${identityProvider}/jwks`));
  const options = { issuer: identityProvider, audience: issuer, typ: 'oauth-id-jag+jwt' };
  const claims = await verified(assertion, remote, options);
  if (claims.resource !== resource) throw new errors.InvalidGrant('resource');
  context.body = await issue(context, claims.sub);
}, ['assertion', 'resource', 'scope']);

provider.on('server_error', (_, error) => console.error('server_error', error));
provider.on('grant.error', (_, error) => console.error('grant.error', error.message, error.error_description));
const handle = provider.callback();
const answer = (request, response) => (request.url === '/exchanges' ? response.end(`${exchanges}`) : handle(request, response));
createServer(answer).listen(Number(port), '127.0.0.1');
