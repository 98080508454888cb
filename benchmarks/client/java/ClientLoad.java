import com.alibaba.fastjson2.JSON;
import com.alibaba.fastjson2.JSONObject;
import com.sun.management.OperatingSystemMXBean;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyContext;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** Apache's Java client at the benchmark's command; the commands are those of programs/commands.py. */
public class ClientLoad {
    private static final String TAGS = "bench";
    private static final int LINGER_MS = 10;
    private static final int BATCH_BYTES = 32 * 1024;
    private static final int TIMEOUT_MS = 30_000;

    private final String nameServer;
    private final AtomicLong failures = new AtomicLong();

    ClientLoad(String nameServer) {
        this.nameServer = nameServer;
    }

    /** Time and CPU time of the process. */
    private static final class Measured {
        private static final OperatingSystemMXBean SYSTEM =
            (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        private final long cpu = SYSTEM.getProcessCpuTime();
        private final long clock = System.nanoTime();

        JSONObject stop(long count) throws Exception {
            JSONObject result = new JSONObject();
            result.put("count", count);
            result.put("seconds", (System.nanoTime() - clock) / 1e9);
            result.put("cpu_seconds", (SYSTEM.getProcessCpuTime() - cpu) / 1e9);
            result.put("memory_mb", memoryMb());
            return result;
        }
    }

    private DefaultMQProducer producer(boolean autoBatch) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("bench-java-producers");
        producer.setNamesrvAddr(nameServer);
        producer.setSendMsgTimeout(TIMEOUT_MS);
        if (autoBatch) {
            producer.setAutoBatch(true);
            producer.batchMaxDelayMs(LINGER_MS);
            producer.batchMaxBytes(BATCH_BYTES);
        }
        producer.start();
        return producer;
    }

    private JSONObject send(JSONObject job) throws Exception {
        int inFlight = job.getIntValue("in_flight");
        byte[] body = new byte[job.getIntValue("size")];
        String topic = job.getString("topic");
        DefaultMQProducer producer = producer(job.getString("do").equals("batch"));
        producer.send(new Message(topic, TAGS, body));
        Semaphore room = new Semaphore(inFlight);
        SendCallback callback = new SendCallback() {
            @Override
            public void onSuccess(SendResult result) {
                room.release();
            }

            @Override
            public void onException(Throwable problem) {
                failures.incrementAndGet();
                room.release();
            }
        };
        long count = 0;
        Measured measured = new Measured();
        long until = System.nanoTime() + (long) (job.getDoubleValue("seconds") * 1e9);
        while (System.nanoTime() < until) {
            if (inFlight == 1) {
                producer.send(new Message(topic, TAGS, body));
            } else {
                room.acquire();
                producer.send(new Message(topic, TAGS, body), callback);
            }
            count++;
        }
        room.acquire(inFlight);
        JSONObject result = measured.stop(count);
        producer.shutdown();
        if (failures.get() > 0) {
            throw new IllegalStateException(failures.get() + " sends failed");
        }
        return result;
    }

    private JSONObject consume(JSONObject job) throws Exception {
        long skip = job.getLongValue("skip");
        long all = job.getLongValue("max_count");
        long nanos = (long) (job.getDoubleValue("seconds") * 1e9);
        AtomicLong seen = new AtomicLong();
        AtomicLong until = new AtomicLong(Long.MAX_VALUE);
        AtomicReference<Measured> measured = new AtomicReference<>();
        CountDownLatch done = new CountDownLatch(1);
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(job.getString("group"));
        consumer.setNamesrvAddr(nameServer);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(job.getString("topic"), "*");
        consumer.registerMessageListener(new MessageListenerConcurrently() {
            @Override
            public ConsumeConcurrentlyStatus consumeMessage(List<MessageExt> messages, ConsumeConcurrentlyContext it) {
                for (MessageExt message : messages) {
                    long number = seen.incrementAndGet();
                    if (number == skip) {
                        measured.set(new Measured());
                        until.set(System.nanoTime() + nanos);
                    } else if (number >= all || (number % 16 == 0 && System.nanoTime() >= until.get())) {
                        done.countDown();
                    }
                }
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            }
        });
        consumer.start();
        done.await();
        JSONObject result = measured.get().stop(seen.get() - skip);
        consumer.shutdown();
        return result;
    }

    private static double memoryMb() throws Exception {
        for (String line : Files.readAllLines(Path.of("/proc/self/status"))) {
            if (line.startsWith("VmRSS:")) {
                return Integer.parseInt(line.split("\\s+")[1]) / 1024.0;
            }
        }
        return 0;
    }

    public static void main(String[] args) throws Exception {
        ClientLoad load = new ClientLoad(args[0]);
        System.out.println("@@ready");
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            JSONObject job = JSON.parseObject(line);
            JSONObject result = job.getString("do").equals("consume") ? load.consume(job) : load.send(job);
            System.out.println("@@" + result);
        }
        System.exit(0);
    }
}
