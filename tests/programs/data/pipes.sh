# Pipes, subshells, substitutions, arrays, here-documents and background jobs.
set -euo pipefail
declare -A count
for word in $(printf '%s\n' {a..z}{a..e}{0..9} | sort -r | head -n 900); do
    count[${word:0:1}]=$((${count[${word:0:1}]:-0} + 1))
done
for key in $(printf '%s\n' "${!count[@]}" | sort); do echo "$key ${count[$key]}"; done
(cd / && (echo "$(echo "$(echo nested)")"; exit 3)) || echo "status $?"
text=$(for i in {1..3000}; do echo "line $i $((i * i))"; done)
echo "${#text} $(echo "$text" | cksum)"
sum=0
while read -r _ number square; do sum=$((sum + square - number)); done <<<"$text"
echo "$sum"
for i in {1..20}; do (echo $((i * i)) >"job.$i") & done
wait
cat job.? job.?? | sort -n | tr '\n' ' '
cat <<END | tr a-z A-Z | rev
here is a document of ${#count[@]} groups
END
(diff <(seq 1 2000) <(seq 2 2001) || true) | wc -l
long=$(printf 'x%.0s' {1..20000}); echo "${long//x/yz}" | fold -w 1000 | wc
