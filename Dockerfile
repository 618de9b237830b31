# docker build -t todo-item-service .
# docker run --rm -p 127.0.0.1:5080:5080 -p 127.0.0.1:5000:5000 todo-item-service
# How to configure, stop and check it: docs/operations.md

FROM node:24-slim AS build
WORKDIR /app
COPY package.json package-lock.json ./
RUN npm ci --ignore-scripts --no-audit --no-fund
COPY tsconfig.json tsconfig.build.json ./
COPY scripts/build.mjs scripts/
COPY page page/
COPY src src/
RUN npm run build && npm prune --omit=dev --ignore-scripts --no-audit --no-fund

FROM node:24-slim
ENV NODE_ENV=production
# For a volume with the file of TODO_DATA; writable for any user that the container runs as.
RUN mkdir -m 1777 /data
WORKDIR /app
COPY package.json ./
COPY page page/
COPY --from=build /app/node_modules node_modules/
COPY --from=build /app/dist dist/
# The user node, by number: Kubernetes cannot tell from a name that it is not root.
USER 1000:1000
# Profile A, Profile B
EXPOSE 5080 5000
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s CMD ["node", "-e", "const { TODO_PORT, TODO_PORT_A = 5080, TODO_PORT_B = 5000, TODO_PROFILE } = process.env; fetch('http://127.0.0.1:' + (TODO_PORT || (TODO_PROFILE === 'b' ? TODO_PORT_B : TODO_PORT_A)) + '/health/ready').then(({ ok }) => process.exit(ok ? 0 : 1), () => process.exit(1))"]
ENTRYPOINT ["node", "dist/src/cli.js"]
CMD ["serve"]
