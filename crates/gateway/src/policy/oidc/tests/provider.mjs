// Starts the OpenID provider `oidc-provider` on a free port of this machine, and prints its issuer. Every login name is
// valid. Install it with `npm install oidc-provider`.
import http from "node:http";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

// The package is in the current directory, not next to this file.
const resolve = createRequire(`${process.cwd()}/`).resolve;
const { default: Provider } = await import(pathToFileURL(resolve("oidc-provider")));

let answer;
const server = http.createServer((request, response) => answer(request, response));
server.listen(0, "127.0.0.1", () => {
  const issuer = `http://127.0.0.1:${server.address().port}`;
  const provider = new Provider(issuer, {
    clients: [
      {
        client_id: "gateway",
        client_secret: "s/cret",
        grant_types: ["authorization_code", "refresh_token"],
        redirect_uris: ["https://shop.example/oidc/callback"],
        post_logout_redirect_uris: ["https://shop.example/"],
      },
    ],
    claims: { openid: ["sub", "name", "groups"] },
    conformIdTokenClaims: false,
    issueRefreshToken: () => true,
    pkce: { required: () => true },
    rotateRefreshToken: true,
    findAccount: (_, id) => ({
      accountId: id,
      claims: () => ({ sub: id, name: id, groups: ["ops", "dev"] }),
    }),
  });
  answer = provider.callback();
  console.log(issuer);
});
