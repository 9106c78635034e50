#!/bin/sh
# Makes ../zarrita.js and ../zarrita.licences.txt from the packages that package.json names.
set -eu
cd "$(dirname "$0")"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cp entry.js zstd.js absent.js package.json "$folder"
cd "$folder"
npm install --silent --no-audit --no-fund
npx esbuild entry.js --bundle --format=esm --target=es2022 --minify --legal-comments=none \
    --alias:numcodecs/zstd=./zstd.js --alias:numcodecs/blosc=./absent.js \
    --alias:numcodecs/lz4=./absent.js --outfile=zarrita.js --metafile=meta.json
for package in $(grep -o 'node_modules/\(@[^/]*/\)\?[^/"]*' meta.json | sort -u); do
    printf '%s %s\n\n' "${package#node_modules/}" "$(sed -n 's/.*"version": "\(.*\)".*/\1/p' "$package/package.json" | head -n 1)"
    cat "$package"/LICENSE*
    printf '\n\n'
done >zarrita.licences.txt
cd - >/dev/null
cp "$folder/zarrita.js" "$folder/zarrita.licences.txt" ..
(cd .. && sha256sum zarrita.js zarrita.licences.txt coast.js >SHA256SUMS)
