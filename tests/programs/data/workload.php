<?php
// Nested arrays, strings, sorting, JSON and regular expressions; prints sums of what it made.
mt_srand(1);
$map = [];
for ($i = 0; $i < 100000; $i++) {
    $map["key " . mt_rand(0, 20000)] = [$i, str_repeat("x", mt_rand(0, 150))];
    if ($i % 3 === 0) {
        unset($map["key " . mt_rand(0, 20000)]);
    }
}
$records = [];
for ($i = 0; $i < 20000; $i++) {
    $records[] = ["id" => $i, "name" => "name " . (($i * 7919) % 20000), "list" => range(0, $i % 10)];
}
usort($records, fn($a, $b) => strcmp($a["name"], $b["name"]));
$text = json_encode($records);
$back = json_decode($text, true);
$words = preg_split('/[^a-z0-9]+/', $text, -1, PREG_SPLIT_NO_EMPTY);
echo count($map), " ", crc32(serialize($map)), " ", crc32($text), " ", count($back), " ", count($words), "\n";
echo implode(" ", array_intersect(["json", "pdo", "tokenizer"], array_map('strtolower', get_loaded_extensions()))), "\n";
