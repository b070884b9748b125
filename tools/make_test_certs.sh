#!/bin/sh
# Makes the certificates that the fault site serves: a CA, a leaf for localhost, an
# expired leaf, one for another host, and one whose issuer nobody trusts.
# They are test data and their keys are public: never trust the CA outside a test.
# Needs openssl 3. Run once; the results are committed.
set -eu

out=$(cd "$(dirname "$0")/../hardfetch/testing/certs" && pwd)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$tmp"

# openssl x509 counts validity from today, a machine with a slow clock would then
# refuse the leaf; `openssl ca` takes both dates.
cat > ca.cnf <<'CNF'
[ca]
default_ca = site
[site]
dir = .
database = ./index.txt
serial = ./serial
new_certs_dir = .
default_md = sha256
policy = any
unique_subject = no
copy_extensions = none
[any]
commonName = supplied
[ext_ca]
basicConstraints = critical,CA:TRUE
keyUsage = critical,keyCertSign,cRLSign
subjectKeyIdentifier = hash
[ext_site]
basicConstraints = critical,CA:FALSE
keyUsage = critical,digitalSignature
extendedKeyUsage = serverAuth
subjectAltName = DNS:localhost,DNS:*.localhost,DNS:*.test,IP:127.0.0.1,IP:::1
[ext_wronghost]
basicConstraints = critical,CA:FALSE
keyUsage = critical,digitalSignature
extendedKeyUsage = serverAuth
subjectAltName = DNS:elsewhere.invalid
CNF
: > index.txt
echo 1000 > serial

new_key() { openssl genpkey -quiet -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$1.key"; }

# sign NAME SUBJECT ISSUER|self EXTENSIONS START END
sign() {
    new_key "$1"
    openssl req -new -key "$1.key" -subj "/CN=$2" -out "$1.csr"
    if [ "$3" = self ]; then
        set -- "$@" -selfsign -keyfile "$1.key"
    else
        set -- "$@" -cert "$3.crt" -keyfile "$3.key"
    fi
    name=$1 ext=$4 from=$5 to=$6
    shift 6
    openssl ca -batch -notext -config ca.cnf -extensions "$ext" -startdate "$from" \
        -enddate "$to" -in "$name.csr" -out "$name.crt" "$@" 2>/dev/null
}

sign ca "hardfetch test CA" self ext_ca 20200101000000Z 20491231235959Z
sign site localhost ca ext_site 20200101000000Z 20491231235959Z
sign expired localhost ca ext_site 20200101000000Z 20210101000000Z
sign wronghost elsewhere.invalid ca ext_wronghost 20200101000000Z 20491231235959Z
sign untrusted localhost self ext_site 20200101000000Z 20491231235959Z

cp ca.crt "$out/ca.pem"
for name in site expired wronghost untrusted; do
    cat "$name.key" "$name.crt" > "$out/$name.pem"
done
