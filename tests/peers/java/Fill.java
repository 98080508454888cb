import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.message.Message;

/**
 * Sends COUNT messages to TOPICS topics (auto-created) and ends with "sent COUNT". Message n has the body n, the key kn and
 * the tag Tn%3; every tenth is long enough to be compressed.
 *
 * Arguments: NAMESRV TOPICS COUNT
 */
public class Fill {
    public static void main(String[] args) throws Exception {
        int topics = Integer.parseInt(args[1]);
        int count = Integer.parseInt(args[2]);
        DefaultMQProducer producer = new DefaultMQProducer("fill");
        producer.setNamesrvAddr(args[0]);
        producer.setSendMsgTimeout(10_000);
        producer.start();
        for (int n = 0; n < count; n++) {
            String body = n % 10 == 0 ? n + "-" + "x".repeat(5000) : Integer.toString(n);
            Message message =
                new Message("fill-" + n % topics, "T" + n % 3, "k" + n, body.getBytes(StandardCharsets.UTF_8));
            if (producer.send(message).getSendStatus() != SendStatus.SEND_OK) {
                throw new IllegalStateException("message " + n + " was not stored");
            }
        }
        System.out.println("sent " + count);
        System.exit(0);
    }
}
