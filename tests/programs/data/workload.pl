# Data structures, regular expressions, sorting, fork and, where perl has them, threads.
use strict;
use warnings;
use Config;

my $state = 42;
sub number { $state = ($state * 1103515245 + 12345) % 2147483648; return $state >> 8; }

my (%words, @records);
for my $i (1 .. 60000) {
    my $word = join '', map { chr(97 + number() % 26) } 1 .. 3 + number() % 12;
    push @{ $words{substr $word, 0, 2} }, $word;
    push @records, { id => $i, word => $word, tags => [ map { number() % 100 } 1 .. 3 ] } if $i % 3 == 0;
}
my $total = 0;
$total += @{ $words{$_} } for keys %words;
print "words $total in ", scalar(keys %words), " groups\n";

my @sorted = sort { $a->{tags}[0] <=> $b->{tags}[0] || $a->{word} cmp $b->{word} || $a->{id} <=> $b->{id} } @records;
print join(',', map { $_->{id} } @sorted[0 .. 20]), "\n";

my $text = join ' ', map { $_->{word} } @sorted;
my %vowels;
$vowels{lc $1}++ while $text =~ /([aeiou]{2,})/g;
print join(' ', map { "$_=$vowels{$_}" } sort { $vowels{$b} <=> $vowels{$a} || $a cmp $b } keys %vowels), "\n";
(my $changed = $text) =~ s/(\w)(\w+)/\U$1\E$2/g;
$changed =~ tr/a-m/n-z/;
print length($changed), ' ', unpack('%32C*', $changed), "\n";

my @kept;
for my $round (1 .. 2000) {
    push @kept, 'x' x (number() % 5000);
    splice @kept, number() % @kept, 1 if @kept > 100;
}
print "kept ", scalar(@kept), ' ', length(join '', @kept), "\n";

for my $child (1 .. 6) {
    pipe my $reader, my $writer or die "pipe: $!";
    my $pid = fork;
    die "fork: $!" unless defined $pid;
    if (!$pid) {
        my @reversed = map { scalar reverse $_->{word} } grep { $_->{id} % 6 == $child % 6 } @records;
        print {$writer} unpack('%32C*', join ' ', sort @reversed), "\n";
        close $writer;
        exit 0;
    }
    close $writer;
    print "child $child: ", scalar <$reader>;
    waitpid $pid, 0;
    die "child $child ended with $?" if $?;
}

if ($Config{useithreads}) {
    require threads;
    for my $round (1 .. 3) {
        my @threads = map {
            my $seed = $_;
            threads->create(sub { return unpack '%32C*', join '', map { "$_->{word}$seed" } @records });
        } 1 .. 3;
        print "thread: ", $_->join, "\n" for @threads;
    }
}
