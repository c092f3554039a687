#!/bin/sh
# Folders for compose.yaml, from the demo inside the package: run it where colonnade[flare] is installed.
set -eu
here="$(cd "$(dirname "$0")" && pwd)"
place="$(mktemp -d)"
trap 'rm -rf "$place"' EXIT
colonnade demo "$place/demo" > /dev/null
colonnade deploy new "$place/demo/study.toml" -o "$here/sites" --server server:8002
for party in employer registry bank; do
  cp "$place/demo/$party.csv" "$here/sites/$party/data.csv"
  sed -i 's|^data = .*|data = "data.csv"|' "$here/sites/$party/site.toml"
done
sed -i 's|^\[site\]|[site]\nmetrics = "9100"|' "$here/sites/server/site.toml"
# The account of the image. Folders hold keys: nobody else may read them.
if [ "$(id -u)" = 0 ]; then chown -R 10001:10001 "$here/sites"; fi
echo "the folders are in $here/sites"
