import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.zip.CRC32;
import java.util.zip.Deflater;
import java.util.zip.Inflater;

/** Threads that use direct buffers, zlib (both in native memory) and the garbage collector. */
public final class Workload {
    private static final int TASKS = 64;
    private static final int THREADS = 6;

    private Workload() {}

    private static byte[] bytes(int seed, int length) {
        byte[] result = new byte[length];
        int state = seed * 31 + 7;
        for (int i = 0; i < length; i++) {
            state = state * 1103515245 + 12345;
            result[i] = (byte) ((state >> 16) % 23);
        }
        return result;
    }

    private static byte[] roundTrip(byte[] input) throws Exception {
        Deflater deflater = new Deflater(6);
        deflater.setInput(input);
        deflater.finish();
        byte[] packed = new byte[input.length + 1000];
        int length = deflater.deflate(packed);
        deflater.end();
        Inflater inflater = new Inflater();
        inflater.setInput(packed, 0, length);
        byte[] output = new byte[input.length];
        int restored = inflater.inflate(output);
        inflater.end();
        if (restored != input.length) {
            throw new IllegalStateException("restored " + restored + " of " + input.length);
        }
        return output;
    }

    private static long task(int seed, Map<String, List<Integer>> shared) throws Exception {
        CRC32 sum = new CRC32();
        List<ByteBuffer> buffers = new ArrayList<>();
        for (int i = 0; i < 40; i++) {
            byte[] content = bytes(seed * 100 + i, 1 + i * i * 97);
            ByteBuffer direct = ByteBuffer.allocateDirect(content.length);
            direct.put(content).flip();
            buffers.add(direct);
            sum.update(roundTrip(content));
            shared.computeIfAbsent("entry " + i, key -> new ArrayList<>());
            List<Integer> list = shared.get("entry " + i);
            synchronized (list) {
                list.add(seed);
            }
        }
        for (ByteBuffer buffer : buffers) {
            sum.update(buffer);
        }
        return sum.getValue();
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, List<Integer>> shared = new ConcurrentHashMap<>();
        ExecutorService pool = Executors.newFixedThreadPool(THREADS);
        List<Future<Long>> results = new ArrayList<>();
        for (int i = 0; i < TASKS; i++) {
            int seed = i;
            results.add(pool.submit(() -> task(seed, shared)));
        }
        long total = 0;
        for (Future<Long> result : results) {
            total = total * 31 + result.get();
        }
        pool.shutdown();
        int entries = shared.values().stream().mapToInt(List::size).sum();
        List<Thread> threads = new ArrayList<>();
        for (int i = 0; i < 300; i++) {
            Thread thread = new Thread(() -> ByteBuffer.allocateDirect(5000).put(0, (byte) 1));
            thread.start();
            threads.add(thread);
        }
        for (Thread thread : threads) {
            thread.join();
        }
        System.out.println(total + " from " + entries + " entries");
    }
}
